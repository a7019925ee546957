-- judge_keys: whether those who took keys before still hold them.
-- params: now timestamptz, keys json
-- returns: place integer, chain_id text, is_holding boolean, is_replaceable boolean, tail_status text (null where the
--   chain is gone, or went on while its lock was waited for: ask again), overdue_id text (the chain's last job, if it should have been started by now and was not)
-- concurrency: the keys are locked by take_keys, so nobody else takes them. A holder that is to be replaced is locked as
--   well: a claim that comes first is waited for and seen, one that comes later waits. The holder's scope says until when
--   he holds: 'pending' until his first claim, 'unfinished' until his chain has ended, 'forever'; a caller's window makes
--   older holders give the key up. To an enqueue (it says what to do on a conflict) a chain that will only be expired holds its
--   key no more: it is locked too, so that a claim which began in time is seen, and the caller expires it.
--   The states are in a CASE to keep the planner off the index of what may expire, which it would read as a whole.
-- locks: first jobs of the chains by id, where they are to be replaced, and overdue last ones; waited for.
WITH sent AS MATERIALIZED (
    SELECT asked.place, taken.chain_id, taken.scope, asked.on_conflict,
           asked.window_ms IS NULL OR taken.taken_at > /*moment*/statement_timestamp()
                                                       - asked.window_ms * interval '1 millisecond' AS is_recent
    FROM json_to_recordset(CAST(CAST(:keys AS text) AS json))
         AS asked (place integer, type_name text, key text, window_ms bigint, on_conflict text)
    JOIN /*schema.*/deduplication AS taken ON taken.type_name = asked.type_name AND taken.key = asked.key
),
overdue AS MATERIALIZED (
    SELECT job.id
    FROM sent JOIN /*schema.*/job AS job ON job.id = sent.chain_id
    WHERE sent.on_conflict IS NOT NULL AND job.is_tail
      AND CASE WHEN job.status IN ('pending', 'blocked') THEN job.attempt = 0 END AND job.expires_at <= /*moment*/statement_timestamp()
    UNION ALL
    SELECT job.id
    FROM sent JOIN /*schema.*/job AS job ON job.chain_id = sent.chain_id AND job.chain_index > 0 AND job.is_tail
    WHERE sent.on_conflict IS NOT NULL
      AND CASE WHEN job.status IN ('pending', 'blocked') THEN job.attempt = 0 END AND job.expires_at <= /*moment*/statement_timestamp()
),
locked AS MATERIALIZED (
    SELECT id, chain_id, status, is_tail, lease_generation, attempt, expires_at
    FROM /*schema.*/job AS job
    WHERE id = ANY (ARRAY(SELECT chain_id FROM sent WHERE on_conflict IN ('replace', 'replace_keep_schedule')
                          UNION SELECT id FROM overdue))
    ORDER BY id
    FOR NO KEY UPDATE
),
gone AS MATERIALIZED (
    SELECT id, chain_id
    FROM locked
    WHERE is_tail AND id IN (SELECT id FROM overdue)
      AND locked.attempt = 0 AND locked.status IN ('pending', 'blocked') AND locked.expires_at <= /*moment*/statement_timestamp()
),
seen AS (
    SELECT sent.place, sent.chain_id, sent.scope, sent.is_recent,
           coalesce(locked.status, first.status) AS status,
           coalesce(locked.is_tail, first.is_tail) AS is_tail,
           coalesce(locked.lease_generation, first.lease_generation) AS lease_generation,
           CASE WHEN locked_tail.is_tail IS NOT FALSE THEN coalesce(locked_tail.status, tail.status) END AS later_status,
           gone.id AS overdue_id
    FROM sent
    LEFT JOIN locked ON locked.id = sent.chain_id
    LEFT JOIN /*schema.*/job AS first ON first.id = sent.chain_id
    LEFT JOIN /*schema.*/job AS tail ON tail.chain_id = sent.chain_id AND tail.chain_index > 0 AND tail.is_tail
    LEFT JOIN locked AS locked_tail ON locked_tail.id = tail.id
    LEFT JOIN gone ON gone.chain_id = sent.chain_id
)
SELECT place, chain_id::text,
       is_recent AND CASE scope
           WHEN 'forever' THEN true
           WHEN 'pending' THEN coalesce(lease_generation = 0 AND status IN ('pending', 'blocked') AND overdue_id IS NULL, false)
           ELSE coalesce(CASE WHEN is_tail THEN status ELSE later_status END IN ('pending', 'blocked', 'running')
                         AND overdue_id IS NULL, false)
       END AS is_holding,
       coalesce(is_tail AND status IN ('pending', 'blocked'), false) AS is_replaceable,
       CASE WHEN is_tail THEN status ELSE later_status END AS tail_status,
       overdue_id::text
FROM seen;

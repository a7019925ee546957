-- judge_keys: whether those who took keys before still hold them.
-- params: now timestamptz, keys json
-- returns: place integer, chain_id text, is_holding boolean, is_replaceable boolean, tail_status text (null where the
--   chain is gone)
-- concurrency: the keys are locked by take_keys, so nobody else takes them. A holder that is to be replaced is locked as
--   well: a claim that comes first is waited for and seen, one that comes later waits. The holder's scope says until when
--   he holds: 'pending' until his first claim, 'unfinished' until his chain has ended, 'forever'; a caller's window makes
--   older holders give the key up.
-- locks: first jobs of the chains by id, where they are to be replaced; waited for.
WITH sent AS MATERIALIZED (
    SELECT asked.place, taken.chain_id, taken.scope, asked.on_conflict,
           asked.window_ms IS NULL OR taken.taken_at > coalesce(CAST(:now AS timestamptz), statement_timestamp())
                                                       - asked.window_ms * interval '1 millisecond' AS is_recent
    FROM json_to_recordset(CAST(CAST(:keys AS text) AS json))
         AS asked (place integer, type_name text, key text, window_ms bigint, on_conflict text)
    JOIN /*schema.*/deduplication AS taken ON taken.type_name = asked.type_name AND taken.key = asked.key
),
locked AS MATERIALIZED (
    SELECT id, status, is_tail, lease_generation
    FROM /*schema.*/job AS job
    WHERE id = ANY (ARRAY(SELECT chain_id FROM sent WHERE on_conflict IN ('replace', 'replace_keep_schedule')))
    ORDER BY id
    FOR NO KEY UPDATE
),
seen AS (
    SELECT sent.place, sent.chain_id, sent.scope, sent.is_recent,
           coalesce(locked.status, first.status) AS status,
           coalesce(locked.is_tail, first.is_tail) AS is_tail,
           coalesce(locked.lease_generation, first.lease_generation) AS lease_generation,
           tail.status AS later_status
    FROM sent
    LEFT JOIN locked ON locked.id = sent.chain_id
    LEFT JOIN /*schema.*/job AS first ON first.id = sent.chain_id
    LEFT JOIN /*schema.*/job AS tail ON tail.chain_id = sent.chain_id AND tail.chain_index > 0 AND tail.is_tail
)
SELECT place, chain_id::text,
       is_recent AND CASE scope
           WHEN 'forever' THEN true
           WHEN 'pending' THEN coalesce(lease_generation = 0 AND status IN ('pending', 'blocked'), false)
           ELSE coalesce(CASE WHEN is_tail THEN status ELSE later_status END IN ('pending', 'blocked', 'running'), false)
       END AS is_holding,
       coalesce(is_tail AND status IN ('pending', 'blocked'), false) AS is_replaceable,
       CASE WHEN is_tail THEN status ELSE later_status END AS tail_status
FROM seen;

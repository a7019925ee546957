-- take_keys: take deduplication keys, or learn who has them.
-- params: now timestamptz, keys json
-- returns: place integer, chain_id text, outcome text ('kept' = held by a living chain, and that is all the caller needs;
--   'taken' = now ours; 'judge' = somebody took it before: locked, ask judge_keys)
-- concurrency: unique by the primary key, so one of any number of callers inserts and the others wait for his commit;
--   then they find his row, also where their snapshot does not show it. A key that is plainly held is not locked; one whose
--   holder should have been started by now and was not is to be judged.
-- locks: keys in their order, waited for.
WITH sent AS MATERIALIZED (
    SELECT place, type_name, key, chain_id, scope, window_ms, on_conflict, is_repeated
    FROM json_to_recordset(CAST(CAST(:keys AS text) AS json)) AS asked (
        place integer, type_name text, key text, chain_id /*id*/uuid, scope text, window_ms bigint, on_conflict text,
        is_repeated boolean
    )
),
held AS MATERIALIZED (
    SELECT sent.place, taken.chain_id
    FROM sent
    JOIN /*schema.*/deduplication AS taken ON taken.type_name = sent.type_name AND taken.key = sent.key
    WHERE sent.on_conflict = 'keep' AND NOT sent.is_repeated AND taken.chain_id <> sent.chain_id
      AND (sent.window_ms IS NULL OR taken.taken_at > /*moment*/statement_timestamp()
                                                      - sent.window_ms * interval '1 millisecond')
      AND CASE taken.scope
          WHEN 'forever' THEN true
          WHEN 'pending' THEN EXISTS (
              SELECT FROM /*schema.*/job AS job
              WHERE job.id = taken.chain_id AND job.lease_generation = 0 AND job.status IN ('pending', 'blocked')
                AND (job.expires_at IS NULL OR job.expires_at > /*moment*/statement_timestamp()))
          ELSE EXISTS (
              SELECT FROM /*schema.*/job AS job
              WHERE job.id = taken.chain_id AND job.is_tail AND job.status IN ('pending', 'blocked', 'running')
                AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp()))
              OR EXISTS (
              SELECT FROM /*schema.*/job AS job
              WHERE job.chain_id = taken.chain_id AND job.chain_index > 0 AND job.is_tail
                AND job.status IN ('pending', 'blocked', 'running')
                AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > /*moment*/statement_timestamp()))
          END
),
taken AS (
    INSERT INTO /*schema.*/deduplication AS deduplication (type_name, key, chain_id, scope, taken_at)
    SELECT type_name, key, chain_id, scope, /*moment*/statement_timestamp()
    FROM sent WHERE place NOT IN (SELECT place FROM held)
    ORDER BY type_name, key
    ON CONFLICT (type_name, key) DO UPDATE SET chain_id = deduplication.chain_id
    RETURNING type_name, key, chain_id
)
SELECT place, chain_id::text, 'kept' AS outcome FROM held
UNION ALL
SELECT sent.place, taken.chain_id::text, CASE WHEN taken.chain_id = sent.chain_id THEN 'taken' ELSE 'judge' END
FROM taken JOIN sent ON sent.type_name = taken.type_name AND sent.key = taken.key;

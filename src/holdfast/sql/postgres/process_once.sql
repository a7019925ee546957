-- process_once: whether a handler does something for the first time, by a key of its own.
-- params: now timestamptz, id text, lease_generation bigint, type_names json, key text, keep_ms bigint
-- returns: outcome text ('first', 'repeated'; else why the job is not the holder's: 'completed', 'completed_here',
--   'cancelled', 'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running), without a lock on the job. The key is written under every name of
--   the type, in their order, and is new if it was under none: code that knows the type by one of them only meets it
--   there. Of two transactions with one key the second waits for the end of the first: committed, it is a repetition;
--   rolled back, it never was. A key older than keep_ms counts as new; one that was known under another name keeps its age.
-- locks: rows of processed by type_name, waited for.
WITH holding AS MATERIALIZED (
    SELECT job.id
    FROM /*schema.*/job AS job
    WHERE job.id = CAST(:id AS /*id*/uuid)
      AND CASE WHEN job.status = 'running' THEN job.lease_generation END = CAST(:lease_generation AS bigint)
),
named AS MATERIALIZED (
    SELECT value AS type_name FROM json_array_elements_text(CAST(CAST(:type_names AS text) AS json)) AS name (value)
),
known AS MATERIALIZED (
    SELECT processed.job_id, processed.processed_at
    FROM /*schema.*/processed AS processed
    WHERE processed.type_name = ANY (ARRAY(SELECT type_name FROM named)) AND processed.key = CAST(:key AS text)
      AND processed.processed_at >= /*moment*/statement_timestamp()
                                    - CAST(:keep_ms AS bigint) * interval '1 millisecond'
    ORDER BY processed.processed_at
    LIMIT 1
),
written AS (
    INSERT INTO /*schema.*/processed AS processed (type_name, key, job_id, processed_at)
    SELECT named.type_name, CAST(:key AS text), coalesce(known.job_id, holding.id),
           coalesce(known.processed_at, CAST(:now AS timestamptz), statement_timestamp())
    FROM holding CROSS JOIN named LEFT JOIN known ON true
    ORDER BY named.type_name COLLATE "C"
    ON CONFLICT (type_name, key) DO UPDATE SET job_id = excluded.job_id, processed_at = excluded.processed_at
    WHERE processed.processed_at < /*moment*/statement_timestamp()
                                   - CAST(:keep_ms AS bigint) * interval '1 millisecond'
    RETURNING type_name
)
SELECT CASE WHEN NOT EXISTS (SELECT FROM known)
             AND (SELECT count(*) FROM written) = (SELECT count(*) FROM named) THEN 'first' ELSE coalesce((
    SELECT CASE WHEN job.status = 'completed' AND job.completed_by IS NULL THEN 'completed'
                WHEN job.lease_generation <> CAST(:lease_generation AS bigint) THEN 'lost'
                WHEN job.status = 'running' THEN 'repeated'
                WHEN job.status = 'completed' THEN 'completed_here'
                WHEN job.status = 'cancelled' THEN 'cancelled'
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE job.id = CAST(:id AS /*id*/uuid)
), 'deleted') END AS outcome;

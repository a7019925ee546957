-- forget_processed: drop up to /*limit*/500 keys of handlers that are older than they are kept.
-- params: now timestamptz, keep_ms bigint
-- returns: forgotten bigint
-- concurrency: a key that somebody is just taking anew is left alone.
-- locks: rows of processed in order of age, never waited for.
WITH old AS MATERIALIZED (
    SELECT processed.ctid
    FROM /*schema.*/processed AS processed
    WHERE processed_at < /*moment*/statement_timestamp()
                         - CAST(:keep_ms AS bigint) * interval '1 millisecond'
    ORDER BY processed_at
    LIMIT /*limit*/500
    FOR UPDATE SKIP LOCKED
),
forgotten AS (
    DELETE FROM /*schema.*/processed AS processed WHERE ctid = ANY (ARRAY(SELECT ctid FROM old)) RETURNING key
)
SELECT count(*) AS forgotten FROM forgotten;

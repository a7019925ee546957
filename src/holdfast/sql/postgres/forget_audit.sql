-- forget_audit: drop up to /*limit*/500 entries of the record that are older than it is kept.
-- params: now timestamptz, keep_ms bigint
-- returns: forgotten bigint
-- concurrency: nobody changes an entry. The first ones by seq are the oldest, but for transactions that were open for long:
--   one of those keeps what was written after it until its own time has come.
-- locks: rows of audit by seq.
WITH old AS MATERIALIZED (
    SELECT seq
    FROM (SELECT seq, at FROM /*schema.*/audit AS audit ORDER BY seq LIMIT /*limit*/500) AS first
    WHERE at < /*moment*/statement_timestamp() - CAST(:keep_ms AS bigint) * interval '1 millisecond'
),
forgotten AS (
    DELETE FROM /*schema.*/audit AS audit WHERE seq = ANY (ARRAY(SELECT seq FROM old)) RETURNING seq
)
SELECT count(*) AS forgotten FROM forgotten;

-- find_finished: up to /*limit*/500 chains that ended longer ago than keep_ms, in the order of their ends, from a place on.
-- params: now timestamptz, after timestamptz, after_seq bigint, keep_ms bigint
-- returns: chain_id text, chain_type_name text, status text, lease_generation bigint, age_ms bigint, is_awaited boolean,
--   finished_at text, seq bigint (the last two are the place of the next page)
-- concurrency: read only. Whoever removes them looks again under their locks. A chain whose end is committed late, behind
--   the place, is found by the next walk from the beginning.
--   The page is cut before it is asked what is old enough: with both bounds a planner without statistics takes it for a
--   handful, and sorts all there is.
-- locks: none.
SELECT page.chain_id::text AS chain_id, page.chain_type_name, page.status, page.lease_generation,
       floor(extract(epoch FROM /*moment*/statement_timestamp() - page.finished_at) * 1000)::bigint AS age_ms,
       EXISTS (SELECT FROM /*schema.*/waiter AS waiter WHERE waiter.chain_id = page.chain_id) AS is_awaited,
       to_char(page.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS finished_at, page.seq
FROM (
    SELECT job.chain_id, job.chain_type_name, job.status, job.lease_generation, job.finished_at, job.seq
    FROM /*schema.*/job AS job
    WHERE job.is_tail AND job.finished_at IS NOT NULL
      AND (job.finished_at, job.seq) > (coalesce(CAST(:after AS timestamptz), '-infinity'), CAST(:after_seq AS bigint))
    ORDER BY job.finished_at, job.seq
    LIMIT /*limit*/500
) AS page
WHERE page.finished_at <= /*moment*/statement_timestamp()
                          - CAST(:keep_ms AS bigint) * interval '1 millisecond'
ORDER BY page.finished_at, page.seq;

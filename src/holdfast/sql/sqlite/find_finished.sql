-- find_finished: up to /*limit*/500 chains that ended longer ago than keep_ms, in the order of their ends, from a place on.
-- params: now timestamptz, after timestamptz, after_seq bigint, keep_ms bigint
-- returns: chain_id text, chain_type_name text, status text, lease_generation bigint, age_ms bigint, is_awaited boolean,
--   finished_at text, seq bigint (the last two are the place of the next page)
-- concurrency: read only. Whoever removes them looks again in the write transaction that does. Who waits for a chain leaves
--   no trace here, and looks at every commit.
--   Those that ended at the instant of the place are asked for apart: one condition for both would read all of them for
--   every page. SQLite reckons in milliseconds, so what is finer than that is carried over as text.
-- locks: none.
SELECT page.chain_id, page.chain_type_name, page.status, page.lease_generation,
       ((strftime('%s', substr(:now, 1, 19)) - strftime('%s', substr(page.finished_at, 1, 19))) * 1000000
        + substr(:now, 21, 6) - substr(page.finished_at, 21, 6)) / 1000 AS age_ms,
       0 AS is_awaited, page.finished_at, page.seq
FROM (
    SELECT * FROM (
        SELECT job.chain_id, job.chain_type_name, job.status, job.lease_generation, job.finished_at, job.seq
        FROM /*schema.*/job AS job INDEXED BY /*name*/job_finished_idx
        WHERE job.is_tail = 1 AND job.finished_at IS NOT NULL AND job.finished_at = :after AND job.seq > :after_seq
        ORDER BY job.seq
        LIMIT /*limit*/500
    )
    UNION ALL
    SELECT * FROM (
        SELECT job.chain_id, job.chain_type_name, job.status, job.lease_generation, job.finished_at, job.seq
        FROM /*schema.*/job AS job INDEXED BY /*name*/job_finished_idx
        WHERE job.is_tail = 1 AND job.finished_at IS NOT NULL AND job.finished_at > ifnull(:after, '')
        ORDER BY job.finished_at, job.seq
        LIMIT /*limit*/500
    )
    ORDER BY finished_at, seq
    LIMIT /*limit*/500
) AS page
WHERE page.finished_at <= strftime('%Y-%m-%dT%H:%M:%f', substr(:now, 1, 23), printf('-%.3f seconds', :keep_ms / 1000.0))
                          || substr(:now, 24)
ORDER BY page.finished_at, page.seq;

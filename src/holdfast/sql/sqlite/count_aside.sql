-- count_aside: what is not in line to be claimed: running, blocked, held, dead, and the suspects, which are claimed alone.
-- params: now timestamptz
-- returns: queue text, type_name text, state text, jobs bigint, waiting_ms bigint
-- concurrency: read only; of each kind the first /*limit*/10000 are counted.
--   The condition of the index is repeated as it stands there: SQLite does not see that another one implies it.
-- locks: none.
WITH counted (queue, type_name, kind, since) AS (
    SELECT * FROM (
        SELECT job.queue, job.type_name, 'running' AS kind, job.last_attempt_at AS since
        FROM /*schema.*/job AS job INDEXED BY /*name*/job_lease_idx
        WHERE job.status = 'running' ORDER BY job.leased_by LIMIT /*limit*/10000
    )
    UNION ALL
    SELECT * FROM (
        SELECT job.queue, job.type_name, 'suspect' AS kind, job.ready_at AS since
        FROM /*schema.*/job AS job INDEXED BY /*name*/job_suspect_idx
        WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count > 0 ORDER BY job.queue, job.ready_at, job.seq LIMIT /*limit*/10000
    )
    UNION ALL
    SELECT * FROM (
        SELECT job.queue, job.type_name, 'held' AS kind, job.created_at AS since
        FROM /*schema.*/job AS job INDEXED BY /*name*/job_aside_idx
        WHERE (job.status IN ('blocked', 'dead_letter', 'cancelled') OR job.held = 1) AND job.status = 'pending' AND job.held = 1
        ORDER BY job.chain_index, job.seq LIMIT /*limit*/10000
    )
    UNION ALL
    SELECT * FROM (
        SELECT job.queue, job.type_name, 'blocked' AS kind, job.created_at AS since
        FROM /*schema.*/job AS job INDEXED BY /*name*/job_aside_idx
        WHERE (job.status IN ('blocked', 'dead_letter', 'cancelled') OR job.held = 1) AND job.status = 'blocked'
        ORDER BY job.chain_index, job.seq LIMIT /*limit*/10000
    )
    UNION ALL
    SELECT * FROM (
        SELECT job.queue, job.type_name, 'dead_letter' AS kind, job.finished_at AS since
        FROM /*schema.*/job AS job INDEXED BY /*name*/job_aside_idx
        WHERE (job.status IN ('blocked', 'dead_letter', 'cancelled') OR job.held = 1) AND job.status = 'dead_letter'
        ORDER BY job.chain_index, job.seq LIMIT /*limit*/10000
    )
)
SELECT queue, type_name, CASE WHEN kind <> 'suspect' THEN kind WHEN since <= :now THEN 'ready' ELSE 'scheduled' END AS state,
       count(*) AS jobs, CAST(round((julianday(:now) - julianday(min(since))) * 86400000) AS INTEGER) AS waiting_ms
FROM counted
GROUP BY 1, 2, 3;

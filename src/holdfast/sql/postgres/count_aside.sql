-- count_aside: what is not in line to be claimed: running, blocked, held, dead, and the suspects, which are claimed alone.
-- params: now timestamptz
-- returns: queue text, type_name text, state text, jobs bigint, waiting_ms bigint
-- concurrency: read only; of each kind the first /*limit*/10000 are counted. Those that stand aside are read in the order
--   of their index, beginning with their state: by the state alone the planner, which takes them for few, would read and
--   sort them all.
-- locks: none.
WITH counted AS (
    (SELECT job.queue, job.type_name, 'running' AS kind, job.last_attempt_at AS since
     FROM /*schema.*/job AS job WHERE job.status = 'running' ORDER BY job.leased_by LIMIT /*limit*/10000)
    UNION ALL
    (SELECT job.queue, job.type_name, 'suspect', job.ready_at
     FROM /*schema.*/job AS job WHERE job.status = 'pending' AND NOT job.held AND job.crash_count > 0
     ORDER BY job.queue, job.ready_at, job.seq LIMIT /*limit*/10000)
    UNION ALL
    SELECT queue, type_name, 'held', since FROM (
        SELECT job.queue, job.type_name, job.status, job.created_at AS since
        FROM /*schema.*/job AS job WHERE job.held AND job.status >= 'pending'
        ORDER BY job.status, job.chain_index, job.seq LIMIT /*limit*/10000
    ) AS front WHERE status = 'pending'
    UNION ALL
    SELECT queue, type_name, 'blocked', since FROM (
        SELECT job.queue, job.type_name, job.status, job.created_at AS since
        FROM /*schema.*/job AS job WHERE (job.status IN ('blocked', 'dead_letter', 'cancelled') OR job.held) AND job.status >= 'blocked'
        ORDER BY job.status, job.chain_index, job.seq LIMIT /*limit*/10000
    ) AS front WHERE status = 'blocked'
    UNION ALL
    SELECT queue, type_name, 'dead_letter', since FROM (
        SELECT job.queue, job.type_name, job.status, job.finished_at AS since
        FROM /*schema.*/job AS job WHERE (job.status IN ('blocked', 'dead_letter', 'cancelled') OR job.held) AND job.status >= 'dead_letter'
        ORDER BY job.status, job.chain_index, job.seq LIMIT /*limit*/10000
    ) AS front WHERE status = 'dead_letter'
)
SELECT queue, type_name,
       CASE WHEN kind <> 'suspect' THEN kind WHEN since <= moment THEN 'ready' ELSE 'scheduled' END AS state,
       count(*) AS jobs, (extract(epoch FROM max(moment) - min(since)) * 1000)::bigint AS waiting_ms
FROM counted, (SELECT /*moment*/statement_timestamp() AS moment) AS clock
GROUP BY 1, 2, 3;

-- list_workers: who is registered, the longest-serving first, with how many jobs each holds and which one leads.
-- params: now timestamptz
-- returns: worker json
-- concurrency: read only; reads every worker, and of the jobs the running ones by their index.
-- locks: none.
SELECT json_build_object(
    'id', worker.id, 'status', worker.status, 'started_at', worker.started_at, 'last_seen_at', worker.last_seen_at,
    'version', worker.version, 'queues', worker.queues, 'metadata', worker.metadata,
    'running', coalesce(held.jobs, 0),
    'is_leader', EXISTS (
        SELECT FROM /*schema.*/leader AS office
        WHERE office.name = 'maintenance' AND office.worker_id = worker.id
          AND office.leased_until > /*moment*/statement_timestamp()
    ),
    'silent_ms', (extract(epoch FROM
        /*moment*/statement_timestamp() - worker.last_seen_at) * 1000)::bigint
)::text AS worker
FROM /*schema.*/worker AS worker
LEFT JOIN (
    SELECT job.leased_by, count(*) AS jobs FROM /*schema.*/job AS job WHERE job.status = 'running' GROUP BY job.leased_by
) AS held ON held.leased_by = worker.id
ORDER BY worker.started_at, worker.id;

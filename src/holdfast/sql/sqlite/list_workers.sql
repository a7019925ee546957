-- list_workers: who is registered, the longest-serving first, with how many jobs each holds and which one leads.
-- params: now timestamptz
-- returns: worker json
-- concurrency: read only; reads every worker, and of the jobs the running ones by their index.
-- locks: none.
SELECT json_object(
    'id', worker.id, 'status', worker.status, 'started_at', worker.started_at, 'last_seen_at', worker.last_seen_at,
    'version', worker.version, 'queues', json(worker.queues), 'metadata', json(worker.metadata),
    'running', (
        SELECT count(*) FROM /*schema.*/job AS job INDEXED BY /*name*/job_lease_idx
        WHERE job.status = 'running' AND job.leased_by = worker.id
    ),
    'is_leader', json(iif(EXISTS (
        SELECT 1 FROM /*schema.*/leader AS office
        WHERE office.name = 'maintenance' AND office.worker_id = worker.id AND office.leased_until > :now
    ), 'true', 'false')),
    'silent_ms', CAST(round((julianday(:now) - julianday(worker.last_seen_at)) * 86400000) AS INTEGER)
) AS worker
FROM /*schema.*/worker AS worker
ORDER BY worker.started_at, worker.id;

-- register_worker: say that a worker lives, with what others should know of it.
-- params: now timestamptz, worker text, version text, queues json, metadata json
-- returns: none
-- concurrency: an upsert of the worker's own row; a worker that was taken for dead is alive again.
-- locks: the database's write lock.
INSERT INTO /*schema.*/worker (id, status, started_at, last_seen_at, heard_since, version, queues, metadata)
VALUES (:worker, 'alive', :now, :now, :now, :version, :queues, :metadata)
ON CONFLICT (id) DO UPDATE
SET status = 'alive', last_seen_at = excluded.last_seen_at, heard_since = excluded.heard_since,
    version = excluded.version, queues = excluded.queues, metadata = excluded.metadata;

-- heartbeat: keep a worker's row fresh.
-- params: now timestamptz, worker text, status text
-- returns: id text
-- concurrency: the worker's own row; no row back means it was cleaned up: register again.
-- locks: the database's write lock.
UPDATE /*schema.*/worker AS worker SET last_seen_at = :now, status = :status WHERE id = :worker RETURNING id;

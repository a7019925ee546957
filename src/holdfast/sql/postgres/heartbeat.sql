-- heartbeat: keep a worker's row fresh.
-- params: now timestamptz, worker text, status text
-- returns: id text
-- concurrency: one HOT update of the worker's own row; no row back means it was cleaned up: register again.
-- locks: one worker row.
UPDATE /*schema.*/worker AS worker
SET last_seen_at = coalesce(CAST(:now AS timestamptz), statement_timestamp()), status = CAST(:status AS text)
WHERE id = CAST(:worker AS text)
RETURNING id;

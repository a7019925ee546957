-- retire_worker: a worker leaves in good order; whatever it could not give back is reapable at once.
-- params: now timestamptz, worker text
-- returns: none
-- concurrency: the worker's own row, as its last write. When it was heard is kept for an hour.
-- locks: the database's write lock.
-- part: forgotten
DELETE FROM /*schema.*/retired AS retired
WHERE last_seen_at < strftime('%Y-%m-%dT%H:%M:%f', :now, '-1 hour') || '000Z';
-- part: remembered
INSERT OR REPLACE INTO /*schema.*/retired (worker_id, heard_since, last_seen_at)
SELECT id, heard_since, last_seen_at FROM /*schema.*/worker AS worker WHERE id = :worker;
-- part: gone
DELETE FROM /*schema.*/worker AS worker WHERE id = :worker;

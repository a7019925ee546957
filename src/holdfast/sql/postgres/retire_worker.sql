-- retire_worker: a worker leaves in good order; whatever it could not give back is reapable at once.
-- params: now timestamptz, worker text
-- returns: none
-- concurrency: the worker's own row, as its last write. When it was heard is kept for an hour, in a row of its own, so
--   that nobody who leaves waits for another.
-- locks: one worker row, then retired rows, never waited for.
WITH gone AS (
    DELETE FROM /*schema.*/worker AS worker WHERE id = CAST(:worker AS text) RETURNING id, heard_since, last_seen_at
),
forgotten AS (
    DELETE FROM /*schema.*/retired AS retired
    WHERE worker_id IN (
        SELECT worker_id FROM /*schema.*/retired AS old
        WHERE last_seen_at < /*moment*/statement_timestamp() - interval '1 hour'
          AND worker_id <> CAST(:worker AS text)
        ORDER BY worker_id FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO /*schema.*/retired AS known (worker_id, heard_since, last_seen_at)
SELECT id, heard_since, last_seen_at FROM gone
ON CONFLICT (worker_id) DO UPDATE SET heard_since = excluded.heard_since, last_seen_at = excluded.last_seen_at;

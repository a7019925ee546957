-- forget_workers: mark silent workers dead, and drop those that have been dead for a day and hold nothing.
-- params: now timestamptz, dead_after_ms bigint
-- returns: id text (newly dead)
-- concurrency: a worker that was only slow sets itself alive again with its next heartbeat.
-- locks: worker rows, never waited for; then prefetch rows of dropped workers.
WITH silent AS MATERIALIZED (
    SELECT id FROM /*schema.*/worker AS worker
    WHERE status <> 'dead'
      AND last_seen_at < /*moment*/statement_timestamp()
                         - CAST(:dead_after_ms AS bigint) * interval '1 millisecond'
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
),
old AS MATERIALIZED (
    SELECT id FROM /*schema.*/worker AS worker
    WHERE status = 'dead'
      AND last_seen_at < /*moment*/statement_timestamp() - interval '1 day'
      AND NOT EXISTS (SELECT FROM /*schema.*/job AS job WHERE job.status = 'running' AND job.leased_by = worker.id)
    ORDER BY id FOR UPDATE SKIP LOCKED
),
dropped AS (DELETE FROM /*schema.*/worker AS worker WHERE id IN (SELECT id FROM old)),
unmarked AS (
    DELETE FROM /*schema.*/prefetch AS prefetch
    WHERE worker_id IN (SELECT id FROM old)
       OR (claimed_at < /*moment*/statement_timestamp() - interval '1 day'
           AND NOT EXISTS (SELECT FROM /*schema.*/worker AS worker WHERE worker.id = prefetch.worker_id)
           AND NOT EXISTS (SELECT FROM /*schema.*/job AS job
                           WHERE job.status = 'running' AND job.leased_by = prefetch.worker_id))
)
UPDATE /*schema.*/worker AS worker SET status = 'dead' WHERE id IN (SELECT id FROM silent) RETURNING id;

-- release_orphans: give back jobs that this worker holds without knowing it (the answer to a claim was lost).
-- params: worker text, known json
-- returns: id text
-- concurrency: called by the worker itself while it has no claim under way, so what it does not know it never started.
-- locks: job rows by id, never waited for.
WITH orphan AS MATERIALIZED (
    SELECT job.ctid
    FROM /*schema.*/job AS job
    WHERE job.status = 'running' AND job.leased_by = CAST(:worker AS text)
      AND job.id::text NOT IN (SELECT json_array_elements_text(CAST(CAST(:known AS text) AS json)))
    ORDER BY job.id
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE /*schema.*/job AS job
SET status = 'pending', attempt = attempt - 1, leased_by = NULL, leased_until = NULL
WHERE ctid = ANY (ARRAY(SELECT ctid FROM orphan))
RETURNING id::text;

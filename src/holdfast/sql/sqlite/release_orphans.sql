-- release_orphans: give back jobs that this worker holds without knowing it (the answer to a claim was lost).
-- params: worker text, known json
-- returns: id text
-- concurrency: called by the worker itself while it has no claim under way, so what it does not know it never started.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = 'pending', attempt = attempt - 1, leased_by = NULL, leased_until = NULL
WHERE status = 'running' AND leased_by = :worker AND id NOT IN (SELECT value FROM json_each(:known))
RETURNING id;

-- resume_queue: give out what a pause has kept back.
-- params: now timestamptz, queue text
-- returns: name text (none if the queue was not paused)
-- concurrency: the jobs keep their places: nobody has looked past what nobody could claim. Whoever waits is to be told.
-- locks: one queue row.
UPDATE /*schema.*/queue AS queue
SET paused_at = NULL, resume_at = NULL, paused_by = NULL, pause_reason = NULL,
    changed_at = /*moment*/statement_timestamp()
WHERE name = CAST(:queue AS text) AND paused_at IS NOT NULL
RETURNING name;

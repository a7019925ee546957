-- pause_queue: give out nothing of a queue, until somebody resumes it or until a time.
-- params: now timestamptz, queue text, resume_at timestamptz, resume_ms bigint, actor text, reason text
-- returns: name text (none if the time has passed: nothing was done)
-- concurrency: claims look at this row, so no claim that begins after this has committed takes a job of the queue. What runs
--   is left alone. A queue that is paused already keeps when that began, and gets the rest anew.
-- locks: one queue row.
INSERT INTO /*schema.*/queue AS known (name, paused_at, resume_at, paused_by, pause_reason, changed_at)
SELECT CAST(:queue AS text), moment, resume, CAST(:actor AS text), CAST(:reason AS text), moment
FROM (SELECT /*moment*/statement_timestamp() AS moment) AS clock,
     LATERAL (
         SELECT coalesce(CAST(:resume_at AS timestamptz),
                         moment + CAST(:resume_ms AS bigint) * interval '1 millisecond') AS resume
     ) AS pause
WHERE resume IS NULL OR resume > moment
ON CONFLICT (name) DO UPDATE
SET paused_at = CASE WHEN known.resume_at <= excluded.changed_at THEN excluded.paused_at
                     ELSE coalesce(known.paused_at, excluded.paused_at) END,
    resume_at = excluded.resume_at, paused_by = excluded.paused_by, pause_reason = excluded.pause_reason,
    changed_at = excluded.changed_at
RETURNING name;

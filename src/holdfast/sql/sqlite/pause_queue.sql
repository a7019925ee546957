-- pause_queue: give out nothing of a queue, until somebody resumes it or until a time.
-- params: now timestamptz, queue text, resume_at timestamptz, resume_ms bigint, actor text, reason text
-- returns: name text (none if the time has passed: nothing was done)
-- concurrency: claims look at this row, so no claim that begins after this has committed takes a job of the queue. What runs
--   is left alone. A queue that is paused already keeps when that began, and gets the rest anew.
-- locks: the database's write lock.
INSERT INTO /*schema.*/queue AS known (name, paused_at, resume_at, paused_by, pause_reason, changed_at)
SELECT :queue, :now, resume, :actor, :reason, :now
FROM (
    SELECT CASE WHEN :resume_ms IS NULL THEN :resume_at
                ELSE strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :resume_ms / 1000.0)) || '000Z' END AS resume
) AS pause
WHERE resume IS NULL OR resume > :now
ON CONFLICT (name) DO UPDATE
SET paused_at = iif(known.resume_at <= excluded.changed_at, excluded.paused_at, ifnull(known.paused_at, excluded.paused_at)),
    resume_at = excluded.resume_at, paused_by = excluded.paused_by, pause_reason = excluded.pause_reason,
    changed_at = excluded.changed_at
RETURNING name;

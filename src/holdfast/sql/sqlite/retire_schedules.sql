-- retire_schedules: schedules that the code has no more enqueue no more; how far they came stays known.
-- params: now timestamptz, app text, names json
-- returns: none
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
UPDATE /*schema.*/schedule AS schedule
SET retired_at = :now, changed_at = :now
WHERE app = :app AND retired_at IS NULL AND name IN (SELECT value FROM json_each(:names));

-- retire_schedules: schedules that the code has no more enqueue no more; how far they came stays known.
-- params: now timestamptz, app text, names json
-- returns: none
-- concurrency: the rows are locked by lock_schedules.
-- locks: none that the transaction does not have.
UPDATE /*schema.*/schedule AS schedule
SET retired_at = /*moment*/statement_timestamp(), changed_at = /*moment*/statement_timestamp()
WHERE app = CAST(:app AS text) AND retired_at IS NULL
  AND name IN (SELECT json_array_elements_text(CAST(CAST(:names AS text) AS json)));

-- check_origin: whether this is the database that workers have worked in before, and not a restored backup or a copy of it.
-- params: now timestamptz, place text, dead_after_ms bigint, accept boolean, actor text
-- returns: found text, recorded text (null: no worker has been here), is_ours boolean
-- concurrency: of several that come first, one writes; all find the same. Recorded is the number of the file in its file
--   system: a copy has another one. dead_after_ms is PostgreSQL's: in a fresh copy, too, workers were heard just now.
-- locks: the database's write lock.
-- part: recorded
SELECT (SELECT place FROM /*schema.*/origin AS origin) AS recorded;
-- part: is_ours
SELECT ifnull(:recorded = :place, 1) OR :accept AS is_ours;
-- part: written
INSERT INTO /*schema.*/origin (is_only, place, recorded_at, recorded_by)
SELECT 1, :place, :now, :actor WHERE :is_ours AND :place IS NOT :recorded
ON CONFLICT (is_only) DO UPDATE
SET place = excluded.place, recorded_at = excluded.recorded_at, recorded_by = excluded.recorded_by;
-- part: answer
SELECT :place AS found, :recorded AS recorded, :is_ours AS is_ours;

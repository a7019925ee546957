-- unset_setting: take a setting back.
-- params: name text
-- returns: name text (no row: it was not set)
-- concurrency: as for set_setting.
-- locks: one row of setting.
DELETE FROM /*schema.*/setting AS setting WHERE name = CAST(:name AS text) RETURNING name;

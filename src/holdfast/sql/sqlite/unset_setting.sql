-- unset_setting: take a setting back.
-- params: name text
-- returns: name text (no row: it was not set)
-- concurrency: as for set_setting.
-- locks: the database's write lock.
DELETE FROM /*schema.*/setting AS setting WHERE name = :name RETURNING name;

-- set_setting: give a setting a value, whether it had one or not.
-- params: now timestamptz, name text, value json
-- returns: setting json
-- concurrency: the last one wins. Workers read settings with their heartbeats, services with every round.
-- locks: one row of setting.
INSERT INTO /*schema.*/setting AS setting (name, value, changed_at)
VALUES (CAST(:name AS text), CAST(CAST(:value AS text) AS json), /*moment*/statement_timestamp())
ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at
RETURNING json_build_object('name', setting.name, 'value', setting.value, 'changed_at', setting.changed_at)::text AS setting;

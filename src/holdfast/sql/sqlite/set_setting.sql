-- set_setting: give a setting a value, whether it had one or not.
-- params: now timestamptz, name text, value json
-- returns: setting json
-- concurrency: the last one wins. Workers read settings with their heartbeats, services with every round.
-- locks: the database's write lock.
INSERT INTO /*schema.*/setting AS setting (name, value, changed_at)
VALUES (:name, :value, :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at
RETURNING json_object('name', name, 'value', json(value), 'changed_at', changed_at) AS setting;

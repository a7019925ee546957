-- list_settings: what operators have set, by name.
-- params: none
-- returns: setting json
-- concurrency: read only.
-- locks: none.
SELECT json_object('name', setting.name, 'value', json(setting.value), 'changed_at', setting.changed_at) AS setting
FROM /*schema.*/setting AS setting
ORDER BY setting.name;

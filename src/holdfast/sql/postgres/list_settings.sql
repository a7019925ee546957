-- list_settings: what operators have set, by name.
-- params: none
-- returns: setting json
-- concurrency: read only.
-- locks: none.
SELECT json_build_object('name', setting.name, 'value', setting.value, 'changed_at', setting.changed_at)::text AS setting
FROM /*schema.*/setting AS setting
ORDER BY setting.name;

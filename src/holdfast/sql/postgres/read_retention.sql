-- read_retention: how long finished chains are kept: what the types say, and what operators have set.
-- params: none
-- returns: type_name text, name text, value json (type_name is null for all types; name is 'keep' for what a type says)
-- concurrency: read only; as many rows as there are types and settings.
-- locks: none.
SELECT job_type.name AS type_name, 'keep' AS name, job_type.keep::text AS value
FROM /*schema.*/job_type AS job_type WHERE job_type.keep IS NOT NULL
UNION ALL
SELECT nullif(substr(setting.name, strpos(setting.name || ':', ':') + 1), ''), split_part(setting.name, ':', 1), setting.value::text
FROM /*schema.*/setting AS setting
WHERE setting.name LIKE 'keep\_%' OR setting.name LIKE 'archive%';

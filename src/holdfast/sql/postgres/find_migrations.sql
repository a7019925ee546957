-- find_migrations: whether the record of migrations exists.
-- params: none
-- returns: found boolean
-- concurrency: read only.
-- locks: none.
SELECT to_regclass('/*schema.*/migration') IS NOT NULL AS found;

-- read_migrations: which migrations this database has.
-- params: none
-- returns: version integer, name text, oldest_code text
-- concurrency: read only.
-- locks: none.
SELECT version, name, oldest_code FROM /*schema.*/migration AS migration ORDER BY version;

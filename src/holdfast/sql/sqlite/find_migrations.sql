-- find_migrations: whether the record of migrations exists.
-- params: none
-- returns: found boolean
-- concurrency: read only.
-- locks: none.
SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '/*bare*/migration') AS found;

-- record_migration: remember that a migration was applied, in the transaction that applied it.
-- params: version integer, name text, oldest_code text
-- returns: none
-- concurrency: under the lock of lock_migrations.
-- locks: the inserted row.
INSERT INTO /*schema.*/migration (version, name, oldest_code)
VALUES (CAST(:version AS integer), CAST(:name AS text), CAST(:oldest_code AS text));

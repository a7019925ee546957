-- record_migration: remember that a migration was applied, in the transaction that applied it.
-- params: version integer, name text, oldest_code text
-- returns: none
-- concurrency: under the lock of lock_migrations.
-- locks: the database's write lock.
INSERT INTO /*schema.*/migration (version, name, oldest_code) VALUES (:version, :name, :oldest_code);

-- lock_migrations: let one process migrate at a time, and make a home for the record of migrations.
-- params: key bigint
-- returns: none
-- concurrency: runs in BEGIN IMMEDIATE, which is the lock; key is PostgreSQL's.
-- locks: the database's write lock.
CREATE TABLE IF NOT EXISTS /*schema.*/migration (
    version     INTEGER PRIMARY KEY,
    name        TEXT NOT NULL,
    applied_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    oldest_code TEXT NOT NULL
);

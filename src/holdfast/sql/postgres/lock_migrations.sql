-- lock_migrations: let one process migrate at a time, and make a home for the record of migrations.
-- params: key bigint
-- returns: none
-- concurrency: a transaction-level advisory lock, released by the commit; transaction poolers carry it.
-- locks: advisory, nothing else is held while waiting. From then on whatever waits for a table gives up after half a second,
--   because everybody else would wait behind it; the store comes again.
SELECT pg_advisory_xact_lock(CAST(:key AS bigint));
-- part: patience
SET LOCAL lock_timeout = '500ms';
-- part: schema
CREATE SCHEMA IF NOT EXISTS /*schema*/holdfast;
-- part: table
CREATE TABLE IF NOT EXISTS /*schema.*/migration (
    version     integer PRIMARY KEY,
    name        text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    oldest_code text NOT NULL
);

-- stamp_functions: write down which functions the database has.
-- only: postgres
-- params: stamp text
-- returns: set_config text
-- concurrency: under the lock of lock_migrations. A comment on one of them goes where the functions go: dumps, copies.
-- locks: one row of PostgreSQL's catalogue.
SELECT set_config('holdfast.stamp', CAST(:stamp AS text), true);
-- part: comment
DO $body$
BEGIN
    EXECUTE format('COMMENT ON FUNCTION /*schema.*/is_terminal(text) IS %L', current_setting('holdfast.stamp'));
END
$body$;

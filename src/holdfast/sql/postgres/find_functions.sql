-- find_functions: which functions the database has, as stamp_functions wrote it down.
-- only: postgres
-- params: none
-- returns: stamp text (null if there are none)
-- concurrency: read only.
-- locks: none.
SELECT obj_description(to_regprocedure('/*schema.*/is_terminal(text)'), 'pg_proc') AS stamp;

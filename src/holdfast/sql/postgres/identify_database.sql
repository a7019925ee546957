-- identify_database: which database this is, and which of the Holdfasts in it.
-- only: postgres
-- params: none
-- returns: database text, identity text (null if it has no tables of ours)
-- concurrency: read only.
-- locks: none.
SELECT current_database()::text AS database,
       CASE WHEN job IS NOT NULL
            THEN concat_ws(' ', (SELECT oid FROM pg_database WHERE datname = current_database()), job::oid,
                           obj_description(job, 'pg_class'))
       END AS identity
FROM to_regclass('/*schema.*/job') AS job;

-- vacuum: give the room of rows that are gone back to their tables, and tell the planner what is left.
-- params: none
-- returns: is_incremental boolean, free_pages bigint, pages bigint, page_size bigint (of the table of jobs)
-- concurrency: reads and writes go on meanwhile; one table after the other, none of them inside a transaction. Slices of
--   /*limit*/500 pages are SQLite's.
-- locks: each table for itself, against changes of its definition.
-- part: job
VACUUM (ANALYZE) /*schema.*/job;
-- part: job_attempt
VACUUM (ANALYZE) /*schema.*/job_attempt;
-- part: job_step
VACUUM (ANALYZE) /*schema.*/job_step;
-- part: job_signal
VACUUM (ANALYZE) /*schema.*/job_signal;
-- part: job_log
VACUUM (ANALYZE) /*schema.*/job_log;
-- part: job_blocker
VACUUM (ANALYZE) /*schema.*/job_blocker;
-- part: deduplication
VACUUM (ANALYZE) /*schema.*/deduplication;
-- part: processed
VACUUM (ANALYZE) /*schema.*/processed;
-- part: throughput
VACUUM (ANALYZE) /*schema.*/throughput;
-- part: left
SELECT true AS is_incremental, 0::bigint AS free_pages, relpages::bigint AS pages, current_setting('block_size')::bigint AS page_size
FROM pg_class WHERE oid = '/*schema.*/job'::regclass;

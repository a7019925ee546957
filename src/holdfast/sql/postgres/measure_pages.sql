-- measure_pages: how large the table of jobs is, as the server last noticed.
-- params: none
-- returns: is_incremental boolean, free_pages bigint, pages bigint, page_size bigint
-- concurrency: read only. A vacuum is always worth a try here, so there is something to free.
-- locks: none.
SELECT true AS is_incremental, 1::bigint AS free_pages, relpages::bigint AS pages, current_setting('block_size')::bigint AS page_size
FROM pg_class WHERE oid = '/*schema.*/job'::regclass;

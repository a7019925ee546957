-- measure_pages: how large the file is, and how much of it is free.
-- params: none
-- returns: is_incremental boolean, free_pages bigint, pages bigint, page_size bigint
-- concurrency: read only.
-- locks: none.
SELECT auto_vacuum = 2 AS is_incremental, freelist_count AS free_pages, page_count AS pages, page_size
FROM pragma_auto_vacuum, pragma_freelist_count, pragma_page_count, pragma_page_size;

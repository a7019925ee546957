-- vacuum: give up to /*limit*/500 free pages at the end of the file back to the file system.
-- params: none
-- returns: is_incremental boolean, free_pages bigint, pages bigint, page_size bigint (as they are then)
-- concurrency: a slice at a time, so that the writer is free in between.
-- locks: the database's write lock.
-- part: freed
PRAGMA incremental_vacuum(/*limit*/500);
-- part: left
SELECT auto_vacuum = 2 AS is_incremental, freelist_count AS free_pages, page_count AS pages, page_size
FROM pragma_auto_vacuum, pragma_freelist_count, pragma_page_count, pragma_page_size;

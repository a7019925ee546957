-- copy_jobs: insert many new jobs that have none of the rarer options and may run now, in the order given.
-- only: postgres
-- params: none
-- returns: none
-- concurrency: as insert_jobs, for connections of our own: other drivers have other ways to send the lines. The times are
--   the columns' defaults, the same for all. There is no JSON document to take apart, and rows are written by the page:
--   a fifth less work for the server, which begins before the last line is written.
-- locks: the inserted rows only.
COPY /*schema.*/job (
    id, chain_id, type_name, chain_type_name, queue, priority, input, max_attempts, timeout_ms, headers
) FROM STDIN WITH (ENCODING 'UTF8');

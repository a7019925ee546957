-- insert_rows: insert new jobs that have none of the rarer options and may run now, in the order given.
-- only: sqlite
-- params: now timestamptz
-- returns: none
-- concurrency: as insert_jobs, for connections of our own: other drivers have other ways to be given values by their place.
--   Taking a document apart costs as much again as the insert, and so does a statement for each row.
-- locks: the database's write lock.
INSERT INTO /*schema.*/job (
    id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at,
    max_attempts, timeout_ms, headers
)
SELECT column1, column1, column2, column2, column3, column4, column5, :now, :now, :now, column6, column7, column8
FROM (VALUES /*rows*/(?, ?, ?, ?, ?, ?, ?, ?));

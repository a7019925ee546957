-- insert_alike: insert new jobs that differ in nothing but their ids and inputs, have none of the rarer options and may run
--   now, in the order given.
-- only: sqlite
-- params: now timestamptz, type_name text, queue text, priority smallint, max_attempts smallint, timeout_ms bigint, headers json
-- returns: none
-- concurrency: as insert_rows. What they share is given once for as many rows as the statement has: a quarter less work.
-- locks: the database's write lock.
INSERT INTO /*schema.*/job (
    id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at,
    max_attempts, timeout_ms, headers
)
SELECT column1, column1, :type_name, :type_name, :queue, :priority, column2, :now, :now, :now,
       :max_attempts, :timeout_ms, :headers
FROM (VALUES /*rows*/(?, ?));

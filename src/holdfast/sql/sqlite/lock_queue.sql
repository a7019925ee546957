-- lock_queue: keep everybody else from dealing out shares of a queue, and read its limits.
-- params: now timestamptz, queue text
-- returns: concurrency integer, rate bigint, burst integer, at bigint (no row if there are none; the rate
--   in millionths of a start per second, the time in seconds)
-- concurrency: the write transaction that this begins has all other writers wait.
-- locks: the database's write lock.
SELECT concurrency, CAST(rate * 1000000 AS INTEGER) AS rate, burst, CAST(strftime('%s', :now) AS INTEGER) AS at
FROM /*schema.*/queue AS queue
WHERE name = :queue AND (concurrency IS NOT NULL OR rate IS NOT NULL);

-- lock_queue: keep everybody else from dealing out shares of a queue, and read its limits.
-- params: now timestamptz, queue text
-- returns: concurrency integer, rate bigint, burst integer, at bigint (no row if there are none; the rate
--   in millionths of a start per second, the time in seconds)
-- concurrency: whoever deals out shares comes through here first, and reads the shares in the next statement, with a
--   snapshot that has seen what the one before has dealt out. Claims do not lock it.
-- locks: one queue row.
SELECT concurrency, floor(rate * 1000000)::bigint AS rate, burst,
       floor(extract(epoch FROM /*moment*/statement_timestamp()))::bigint AS at
FROM /*schema.*/queue AS queue
WHERE name = CAST(:queue AS text) AND (concurrency IS NOT NULL OR rate IS NOT NULL)
FOR NO KEY UPDATE;

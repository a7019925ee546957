-- forget_limits: forget concurrency keys that have saved up all their starts again.
-- params: now timestamptz
-- returns: none
-- concurrency: a key without a row is one that has them all.
-- locks: the database's write lock.
DELETE FROM /*schema.*/limited_key AS known
WHERE (queue, concurrency_key) IN (
    SELECT queue, concurrency_key FROM /*schema.*/limited_key AS known
    WHERE full_at < (strftime('%s', substr(:now, 1, 19)) * 1000000 + CAST(substr(:now, 21, 6) AS INTEGER)) - 60000000
      AND (due_at IS NULL OR due_at < (strftime('%s', substr(:now, 1, 19)) * 1000000 + CAST(substr(:now, 21, 6) AS INTEGER)))
    LIMIT /*limit*/100
);

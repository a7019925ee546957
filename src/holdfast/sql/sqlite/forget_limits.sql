-- forget_limits: forget concurrency keys that have saved up all their starts again.
-- params: now timestamptz
-- returns: none
-- concurrency: a key without a row is one that has them all.
-- locks: the database's write lock.
DELETE FROM /*schema.*/limited_key AS known
WHERE (queue, concurrency_key) IN (
    SELECT queue, concurrency_key FROM /*schema.*/limited_key AS known
    WHERE full_at < /*microseconds*/now() - 60000000
      AND (due_at IS NULL OR due_at < /*microseconds*/now())
    LIMIT /*limit*/100
);

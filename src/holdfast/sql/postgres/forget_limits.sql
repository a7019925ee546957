-- forget_limits: forget concurrency keys that have saved up all their starts again.
-- params: now timestamptz
-- returns: none
-- concurrency: a key without a row is one that has them all. Rows that a claim has locked are left.
-- locks: limited_key rows, never waited for.
DELETE FROM /*schema.*/limited_key AS known
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM /*schema.*/limited_key AS known
    WHERE full_at < /*moment*/statement_timestamp() - interval '1 minute'
      AND (due_at IS NULL OR due_at < /*moment*/statement_timestamp())
    LIMIT /*limit*/100
    FOR UPDATE SKIP LOCKED
));

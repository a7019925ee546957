-- sees_commits: whether the transaction sees what others commit while it runs.
-- params: none
-- returns: sees_commits boolean
-- concurrency: read only. At stricter levels than READ COMMITTED every statement sees what there was at the first one.
-- locks: none.
SELECT current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') AS sees_commits;

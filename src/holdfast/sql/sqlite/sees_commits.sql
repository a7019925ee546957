-- sees_commits: whether the transaction sees what others commit while it runs.
-- params: none
-- returns: sees_commits boolean
-- concurrency: read only. Inside a write transaction nobody else commits, and what it sees is the newest there is.
-- locks: none.
SELECT 1 AS sees_commits;

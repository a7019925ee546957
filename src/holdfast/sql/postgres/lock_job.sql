-- lock_job: one job with all its columns, locked until the transaction ends.
-- params: id text
-- returns: job json
-- concurrency: waits for whoever has the row locked, and returns what that one left behind.
-- locks: the row, against changes and deletion; not against foreign keys that point at it.
SELECT /*document*/job.id AS job FROM /*schema.*/job AS job WHERE job.id = CAST(:id AS /*id*/uuid)
FOR NO KEY UPDATE;

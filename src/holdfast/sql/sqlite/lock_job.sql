-- lock_job: one job with all its columns, locked until the transaction ends.
-- params: id text
-- returns: job json
-- concurrency: the file has one writer. Whoever runs this is it: a borrowed transaction takes the write lock first.
-- locks: none beyond that.
SELECT /*document*/job.id AS job FROM /*schema.*/job AS job WHERE job.id = :id;

-- lock_job: one job with all its columns, locked until the transaction ends.
-- params: id text
-- returns: job json
-- concurrency: the file has one writer, and from here on it is this transaction.
-- locks: the file, against other writers: a transaction that only read so far has to become a writing one.
-- part: become_writer
UPDATE /*schema.*/job SET id = id WHERE false;
-- part: job
SELECT /*document*/job.id AS job FROM /*schema.*/job AS job WHERE job.id = :id;

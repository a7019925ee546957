-- get_job: one job with all its columns.
-- params: id text
-- returns: job json
-- concurrency: read only.
-- locks: none.
SELECT /*document*/job.id AS job FROM /*schema.*/job AS job WHERE job.id = CAST(:id AS /*id*/uuid);

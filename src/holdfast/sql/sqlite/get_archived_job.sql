-- get_archived_job: one job from the archive with all its columns.
-- params: id text
-- returns: job json
-- concurrency: read only; what is archived does not change.
-- locks: none.
SELECT /*document*/job.id AS job FROM /*schema.*/job_archive AS job WHERE job.id = :id LIMIT 1;

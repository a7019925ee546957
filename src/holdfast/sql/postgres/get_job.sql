-- get_job: one job with all its columns.
-- params: id text
-- returns: job json
-- concurrency: read only.
-- locks: none.
SELECT to_json(job)::text AS job FROM /*schema.*/job AS job WHERE id = CAST(:id AS /*id*/uuid);

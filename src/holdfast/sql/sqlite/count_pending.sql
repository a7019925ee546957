-- count_pending: how many jobs are pending, counted up to a limit per kind.
-- params: none
-- returns: count bigint
-- concurrency: read only; a hint for where to look.
-- locks: none.
SELECT (SELECT count(*) FROM (SELECT 1 FROM /*schema.*/job AS job
                              WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 0
                              LIMIT /*limit*/1) AS ready)
     + (SELECT count(*) FROM (SELECT 1 FROM /*schema.*/job AS job
                              WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1
                              LIMIT /*limit*/1) AS fair)
     + (SELECT count(*) FROM (SELECT 1 FROM /*schema.*/job AS job
                              WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count > 0
                              LIMIT /*limit*/1) AS suspect)
     + (SELECT count(*) FROM (SELECT 1 FROM /*schema.*/job AS job
                              WHERE job.status = 'pending' AND job.held = 1
                              LIMIT /*limit*/1) AS held) AS count;

-- count_pending: how many jobs are pending, counted up to a limit per kind.
-- params: none
-- returns: count bigint
-- concurrency: read only; a hint for where to look.
-- locks: none.
SELECT (SELECT count(*) FROM (SELECT FROM /*schema.*/job AS job
                              WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair
                              LIMIT /*limit*/1) AS ready)
     + (SELECT count(*) FROM (SELECT FROM /*schema.*/job AS job
                              WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair
                              LIMIT /*limit*/1) AS fair)
     + (SELECT count(*) FROM (SELECT FROM /*schema.*/job AS job
                              WHERE job.status = 'pending' AND NOT job.held AND job.crash_count > 0
                              LIMIT /*limit*/1) AS suspect)
     + (SELECT count(*) FROM (SELECT FROM /*schema.*/job AS job
                              WHERE job.status = 'pending' AND job.held
                              LIMIT /*limit*/1) AS held) AS count;

-- list_jobs: a page of jobs by seq, with filters.
-- params: none (those of the chosen fragments)
-- returns: job json
-- concurrency: read only; keyset pages on seq neither skip nor repeat while rows are inserted.
-- locks: none.
-- Filters and order are fixed fragments of job_fragments.sql.
SELECT to_json(job)::text AS job
FROM /*schema.*/job AS job
WHERE /*filters*/true
ORDER BY /*order*/job.seq DESC
LIMIT /*limit*/50;

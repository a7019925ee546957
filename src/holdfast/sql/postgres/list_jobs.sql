-- list_jobs: a page of jobs by seq, with filters.
-- params: tenant text (and those of the chosen fragments)
-- returns: job json, seq bigint
-- concurrency: read only; keyset pages on seq neither skip nor repeat while rows are inserted.
-- locks: none.
-- Filters, order and sources are fragments of job_fragments.sql. A source that is not named is not looked at: one walks
-- along seq, each of the others has an index to where its jobs are, however few they are among however many.
-- Left to itself the planner would rather walk along seq and hope to meet what it looks for soon, which goes wrong where all
-- of it is old. An array instead of a value, and the order to match, leave it only the index that was made for the state
-- or the tenant; (SELECT 0) hides from it that the index of chains would do; OFFSET 0 keeps it from joining whole tables.
WITH by_seq AS (
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE /*filters*/true
    ORDER BY /*order*/seq DESC
    LIMIT /*limit*/50
),
by_id AS MATERIALIZED (
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE /*filters*/true
),
by_tenant AS (
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE job.tenant = ANY (ARRAY[CAST(:tenant AS text)])
      AND /*filters*/true
    ORDER BY /*tenant_order*/seq DESC
    LIMIT /*limit*/50
),
blocked AS (
    SELECT * FROM (
        SELECT job.id, job.seq FROM /*schema.*/job AS job
        WHERE job.status = ANY (ARRAY['blocked']) AND job.chain_index = 0
          AND /*filters*/true
        ORDER BY /*status_order*/seq DESC
        LIMIT /*limit*/50
    ) AS first
    UNION ALL
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE job.status = ANY (ARRAY['blocked']) AND job.chain_index > (SELECT 0)
      AND /*filters*/true
),
dead_letter AS (
    SELECT * FROM (
        SELECT job.id, job.seq FROM /*schema.*/job AS job
        WHERE job.status = ANY (ARRAY['dead_letter']) AND job.chain_index = 0
          AND /*filters*/true
        ORDER BY /*status_order*/seq DESC
        LIMIT /*limit*/50
    ) AS first
    UNION ALL
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE job.status = ANY (ARRAY['dead_letter']) AND job.chain_index > (SELECT 0)
      AND /*filters*/true
),
cancelled AS (
    SELECT * FROM (
        SELECT job.id, job.seq FROM /*schema.*/job AS job
        WHERE job.status = ANY (ARRAY['cancelled']) AND job.chain_index = 0
          AND /*filters*/true
        ORDER BY /*status_order*/seq DESC
        LIMIT /*limit*/50
    ) AS first
    UNION ALL
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE job.status = ANY (ARRAY['cancelled']) AND job.chain_index > (SELECT 0)
      AND /*filters*/true
),
running AS MATERIALIZED (
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE job.status = 'running'
      AND /*filters*/true
),
pending AS MATERIALIZED (
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND NOT job.is_fair
      AND /*filters*/true
    UNION ALL
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair
      AND /*filters*/true
    UNION ALL
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE job.status = 'pending' AND NOT job.held AND job.crash_count > 0
      AND /*filters*/true
    UNION ALL
    SELECT job.id, job.seq FROM /*schema.*/job AS job
    WHERE job.status = 'pending' AND job.held
      AND /*filters*/true
)
SELECT /*document*/job.id AS job, job.seq AS seq
FROM (
    SELECT id, seq FROM (
        /*sources*/SELECT id, seq FROM by_seq
    ) AS source
    ORDER BY /*order*/seq DESC
    LIMIT /*limit*/50
) AS found
JOIN /*schema.*/job AS job ON job.id = found.id
ORDER BY /*order*/seq DESC;

-- list_chains: a page of chains by the seq of their first jobs, with filters; a chain's state is that of its last job.
-- params: tenant text (and those of the chosen fragments)
-- returns: chain json, tail json, seq bigint
-- concurrency: read only; the first job's seq never changes, so keyset pages on it neither skip nor repeat while rows are
--   inserted and chains go on.
-- locks: none.
-- Filters, order and sources are fragments of job_fragments.sql, with the first job as job. A source that is not named is
-- not looked at. Only completed jobs have successors, so whatever is in another state is the tail of its chain.
-- Left to itself the planner would rather walk along seq and hope to meet what it looks for soon, which goes wrong where all
-- of it is old. An array instead of a value, and the order to match, leave it only the index that was made for the state
-- or the tenant; (SELECT 0) hides from it that the index of chains would do; OFFSET 0 keeps it from joining whole tables.
WITH by_seq AS (
    SELECT tail.id, job.seq FROM /*schema.*/job AS job
    CROSS JOIN LATERAL (
        SELECT job.id, job.status WHERE job.is_tail
        UNION ALL
        (SELECT later.id, later.status FROM /*schema.*/job AS later
         WHERE NOT job.is_tail AND later.chain_id = job.id AND later.chain_index > 0
         ORDER BY later.chain_index DESC LIMIT 1)
    ) AS tail
    WHERE job.chain_index = 0
      AND /*tail_filters*/true
      AND /*filters*/true
    ORDER BY /*order*/seq DESC
    LIMIT /*limit*/50
),
by_id AS MATERIALIZED (
    SELECT tail.id, job.seq FROM /*schema.*/job AS job
    CROSS JOIN LATERAL (
        SELECT job.id, job.status WHERE job.is_tail
        UNION ALL
        (SELECT later.id, later.status FROM /*schema.*/job AS later
         WHERE NOT job.is_tail AND later.chain_id = job.id AND later.chain_index > 0
         ORDER BY later.chain_index DESC LIMIT 1)
    ) AS tail
    WHERE job.chain_index = 0
      AND /*tail_filters*/true
      AND /*filters*/true
),
by_tenant AS (
    SELECT tail.id, job.seq FROM /*schema.*/job AS job
    CROSS JOIN LATERAL (
        SELECT job.id, job.status WHERE job.is_tail
        UNION ALL
        (SELECT later.id, later.status FROM /*schema.*/job AS later
         WHERE NOT job.is_tail AND later.chain_id = job.id AND later.chain_index > 0
         ORDER BY later.chain_index DESC LIMIT 1)
    ) AS tail
    WHERE job.tenant = ANY (ARRAY[CAST(:tenant AS text)]) AND job.chain_index = 0
      AND /*tail_filters*/true
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
    SELECT tail.id, job.seq FROM /*schema.*/job AS tail
    CROSS JOIN LATERAL (SELECT * FROM /*schema.*/job AS job WHERE job.id = tail.chain_id OFFSET 0) AS job
    WHERE tail.status = ANY (ARRAY['blocked']) AND tail.chain_index > (SELECT 0)
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
    SELECT tail.id, job.seq FROM /*schema.*/job AS tail
    CROSS JOIN LATERAL (SELECT * FROM /*schema.*/job AS job WHERE job.id = tail.chain_id OFFSET 0) AS job
    WHERE tail.status = ANY (ARRAY['dead_letter']) AND tail.chain_index > (SELECT 0)
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
    SELECT tail.id, job.seq FROM /*schema.*/job AS tail
    CROSS JOIN LATERAL (SELECT * FROM /*schema.*/job AS job WHERE job.id = tail.chain_id OFFSET 0) AS job
    WHERE tail.status = ANY (ARRAY['cancelled']) AND tail.chain_index > (SELECT 0)
      AND /*filters*/true
),
running AS MATERIALIZED (
    SELECT tail.id, job.seq FROM /*schema.*/job AS tail
    CROSS JOIN LATERAL (SELECT * FROM /*schema.*/job AS job WHERE job.id = tail.chain_id OFFSET 0) AS job
    WHERE tail.status = 'running'
      AND /*filters*/true
),
pending AS MATERIALIZED (
    SELECT tail.id, job.seq FROM /*schema.*/job AS tail
    CROSS JOIN LATERAL (SELECT * FROM /*schema.*/job AS job WHERE job.id = tail.chain_id OFFSET 0) AS job
    WHERE tail.status = 'pending' AND NOT tail.held AND tail.crash_count = 0 AND NOT tail.is_fair
      AND /*filters*/true
    UNION ALL
    SELECT tail.id, job.seq FROM /*schema.*/job AS tail
    CROSS JOIN LATERAL (SELECT * FROM /*schema.*/job AS job WHERE job.id = tail.chain_id OFFSET 0) AS job
    WHERE tail.status = 'pending' AND NOT tail.held AND tail.crash_count = 0 AND tail.is_fair
      AND /*filters*/true
    UNION ALL
    SELECT tail.id, job.seq FROM /*schema.*/job AS tail
    CROSS JOIN LATERAL (SELECT * FROM /*schema.*/job AS job WHERE job.id = tail.chain_id OFFSET 0) AS job
    WHERE tail.status = 'pending' AND NOT tail.held AND tail.crash_count > 0
      AND /*filters*/true
    UNION ALL
    SELECT tail.id, job.seq FROM /*schema.*/job AS tail
    CROSS JOIN LATERAL (SELECT * FROM /*schema.*/job AS job WHERE job.id = tail.chain_id OFFSET 0) AS job
    WHERE tail.status = 'pending' AND tail.held
      AND /*filters*/true
)
SELECT json_build_object('id', first.id, 'type_name', first.type_name, 'created_at', first.created_at)::text AS chain,
       /*document*/job.id AS tail, found.seq AS seq
FROM (
    SELECT id, seq FROM (
        /*sources*/SELECT id, seq FROM by_seq
    ) AS source
    ORDER BY /*order*/seq DESC
    LIMIT /*limit*/50
) AS found
JOIN /*schema.*/job AS job ON job.id = found.id
JOIN /*schema.*/job AS first ON first.id = job.chain_id
ORDER BY /*order*/seq DESC;

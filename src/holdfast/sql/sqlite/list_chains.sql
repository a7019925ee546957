-- list_chains: a page of chains by the seq of their first jobs, with filters; a chain's state is that of its last job.
-- params: tenant text (and those of the chosen fragments)
-- returns: chain json, tail json, seq bigint
-- concurrency: read only; the first job's seq never changes, so keyset pages on it neither skip nor repeat while rows are
--   inserted and chains go on.
-- locks: none.
-- Filters, order and sources are fragments of job_fragments.sql, with the first job as job. A source that is not named is
-- not looked at. Only completed jobs have successors, so whatever is in another state is the tail of its chain.
WITH by_seq AS (
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS job
    JOIN /*schema.*/job AS tail ON tail.seq = iif(job.is_tail, job.seq, (
        SELECT later.seq FROM /*schema.*/job AS later
        WHERE later.chain_id = job.id AND later.chain_index > 0
        ORDER BY later.chain_index DESC LIMIT 1
    ))
    WHERE job.chain_index = 0
      AND /*tail_filters*/true
      AND /*filters*/true
    ORDER BY /*order*/seq DESC
    LIMIT /*limit*/50
),
by_id AS MATERIALIZED (
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS job
    JOIN /*schema.*/job AS tail ON tail.seq = iif(job.is_tail, job.seq, (
        SELECT later.seq FROM /*schema.*/job AS later
        WHERE later.chain_id = job.id AND later.chain_index > 0
        ORDER BY later.chain_index DESC LIMIT 1
    ))
    WHERE job.chain_index = 0
      AND /*tail_filters*/true
      AND /*filters*/true
),
by_tenant AS (
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS job
    JOIN /*schema.*/job AS tail ON tail.seq = iif(job.is_tail, job.seq, (
        SELECT later.seq FROM /*schema.*/job AS later
        WHERE later.chain_id = job.id AND later.chain_index > 0
        ORDER BY later.chain_index DESC LIMIT 1
    ))
    WHERE job.tenant = :tenant AND job.chain_index = 0
      AND /*tail_filters*/true
      AND /*filters*/true
    ORDER BY /*tenant_order*/seq DESC
    LIMIT /*limit*/50
),
blocked AS (
    SELECT * FROM (
        SELECT job.id, job.seq FROM /*schema.*/job AS job
        WHERE job.status = 'blocked'
          AND job.status IN ('blocked', 'dead_letter', 'cancelled') AND job.chain_index = 0
          AND /*filters*/true
        ORDER BY /*status_order*/seq DESC
        LIMIT /*limit*/50
    ) AS first
    UNION ALL
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS tail
    CROSS JOIN /*schema.*/job AS job ON job.id = tail.chain_id
    WHERE tail.status = 'blocked'
      AND tail.status IN ('blocked', 'dead_letter', 'cancelled') AND tail.chain_index > 0
      AND /*filters*/true
),
dead_letter AS (
    SELECT * FROM (
        SELECT job.id, job.seq FROM /*schema.*/job AS job
        WHERE job.status = 'dead_letter'
          AND job.status IN ('blocked', 'dead_letter', 'cancelled') AND job.chain_index = 0
          AND /*filters*/true
        ORDER BY /*status_order*/seq DESC
        LIMIT /*limit*/50
    ) AS first
    UNION ALL
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS tail
    CROSS JOIN /*schema.*/job AS job ON job.id = tail.chain_id
    WHERE tail.status = 'dead_letter'
      AND tail.status IN ('blocked', 'dead_letter', 'cancelled') AND tail.chain_index > 0
      AND /*filters*/true
),
cancelled AS (
    SELECT * FROM (
        SELECT job.id, job.seq FROM /*schema.*/job AS job
        WHERE job.status = 'cancelled'
          AND job.status IN ('blocked', 'dead_letter', 'cancelled') AND job.chain_index = 0
          AND /*filters*/true
        ORDER BY /*status_order*/seq DESC
        LIMIT /*limit*/50
    ) AS first
    UNION ALL
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS tail
    CROSS JOIN /*schema.*/job AS job ON job.id = tail.chain_id
    WHERE tail.status = 'cancelled'
      AND tail.status IN ('blocked', 'dead_letter', 'cancelled') AND tail.chain_index > 0
      AND /*filters*/true
),
running AS MATERIALIZED (
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS tail
    CROSS JOIN /*schema.*/job AS job ON job.id = tail.chain_id
    WHERE tail.status = 'running'
      AND /*filters*/true
),
pending AS MATERIALIZED (
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS tail
    CROSS JOIN /*schema.*/job AS job ON job.id = tail.chain_id
    WHERE tail.status = 'pending' AND tail.held = 0 AND tail.crash_count = 0 AND tail.is_fair = 0
      AND /*filters*/true
    UNION ALL
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS tail
    CROSS JOIN /*schema.*/job AS job ON job.id = tail.chain_id
    WHERE tail.status = 'pending' AND tail.held = 0 AND tail.crash_count = 0 AND tail.is_fair = 1
      AND /*filters*/true
    UNION ALL
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS tail
    CROSS JOIN /*schema.*/job AS job ON job.id = tail.chain_id
    WHERE tail.status = 'pending' AND tail.held = 0 AND tail.crash_count > 0
      AND /*filters*/true
    UNION ALL
    SELECT tail.id, job.seq AS seq FROM /*schema.*/job AS tail
    CROSS JOIN /*schema.*/job AS job ON job.id = tail.chain_id
    WHERE tail.status = 'pending' AND tail.held = 1
      AND /*filters*/true
)
SELECT json_object('id', first.id, 'type_name', first.type_name, 'created_at', first.created_at) AS chain,
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

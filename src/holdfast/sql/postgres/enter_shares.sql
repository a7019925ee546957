-- enter_shares: after its limits have changed, enter whoever runs jobs of a queue, with no share; drop all without limits.
-- params: now timestamptz, queue text
-- returns: none
-- concurrency: the queue's row is locked. What runs counts before its workers have heard of the limit, so nobody else is
--   given what they use. They can claim no more until they have asked for a share.
-- locks: queue_share rows of the queue, of which nobody else writes any.
WITH limited AS MATERIALIZED (
    SELECT name FROM /*schema.*/queue AS queue
    WHERE name = CAST(:queue AS text) AND (concurrency IS NOT NULL OR rate IS NOT NULL)
),
dropped AS (
    DELETE FROM /*schema.*/queue_share AS share WHERE queue = CAST(:queue AS text) AND NOT EXISTS (SELECT FROM limited)
)
INSERT INTO /*schema.*/queue_share AS known (queue, worker_id, in_use, changed_at)
SELECT limited.name, job.leased_by, count(*), /*moment*/statement_timestamp()
FROM limited JOIN /*schema.*/job AS job ON job.status = 'running' AND job.queue = limited.name
GROUP BY limited.name, job.leased_by
ON CONFLICT (queue, worker_id) DO UPDATE SET in_use = greatest(known.in_use, excluded.in_use);

-- find_turn: how many jobs of the same tenant are claimed before a job that goes by tenant.
-- params: now timestamptz, id text
-- returns: ahead bigint, is_far boolean (no row for a job that does not go by tenant, or is not to be claimed now)
-- concurrency: read only; of those in front no more than /*limit*/100 are looked at, and is_far says that there may be others.
-- locks: none.
SELECT count(*) FILTER (WHERE other.ready_at <= moment) AS ahead, count(*) >= /*limit*/100 AS is_far
FROM (SELECT /*moment*/statement_timestamp() AS moment) AS clock
CROSS JOIN LATERAL (
    SELECT job.queue, job.tenant, job.priority, job.ready_at, job.seq FROM /*schema.*/job AS job
    WHERE job.id = CAST(:id AS /*id*/uuid) AND CASE WHEN job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair THEN true END
      AND job.ready_at <= clock.moment
) AS this
LEFT JOIN LATERAL (
    SELECT job.ready_at FROM /*schema.*/job AS job
    WHERE job.status = 'pending' AND NOT job.held AND job.crash_count = 0 AND job.is_fair
      AND job.queue = this.queue AND job.tenant = this.tenant
      AND (job.priority, job.ready_at, job.seq) < (this.priority, this.ready_at, this.seq)
    ORDER BY job.priority, job.ready_at, job.seq
    LIMIT /*limit*/100
) AS other ON true
GROUP BY this.seq;

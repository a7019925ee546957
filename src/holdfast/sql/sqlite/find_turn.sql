-- find_turn: how many jobs of the same tenant are claimed before a job that goes by tenant.
-- params: now timestamptz, id text
-- returns: ahead bigint, is_far boolean (no row for a job that does not go by tenant, or is not to be claimed now)
-- concurrency: read only; of those in front no more than /*limit*/100 are looked at, and is_far says that there may be others.
-- locks: none.
SELECT (SELECT count(*) FROM json_each(looked_at) WHERE value <= :now) AS ahead,
       json_array_length(looked_at) >= /*limit*/100 AS is_far
FROM (
    SELECT (
        SELECT json_group_array(ready_at) FROM (
            SELECT job.ready_at FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_idx
            WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1
              AND job.queue = this.queue AND job.tenant = this.tenant
              AND (job.priority, job.ready_at, job.seq) < (this.priority, this.ready_at, this.seq)
            ORDER BY job.priority, job.ready_at, job.seq LIMIT /*limit*/100
        )
    ) AS looked_at
    FROM /*schema.*/job AS this
    WHERE this.id = :id AND +this.status = 'pending' AND +this.held = 0 AND +this.crash_count = 0 AND +this.is_fair = 1
      AND this.ready_at <= :now
    LIMIT -1  -- keeps the list from being made twice
);

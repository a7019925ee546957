-- claim_suspect: take one job whose earlier worker died, to be run alone.
-- params: now timestamptz, worker text, queues json, lease_ms bigint, taste json, passed json
-- returns: json rows of id text, lease_generation bigint, type_name text, input json, attempt smallint, queue text,
--   priority smallint, ready_at timestamptz, seq bigint, timeout_ms bigint, claimed_at timestamptz, crash_count smallint,
--   chain_id text, chain_index integer, chain_type_name text, created_at timestamptz, scheduled_at timestamptz,
--   max_attempts smallint, last_attempt_error json, tenant text, headers json, has_blockers boolean, partition_key text,
--   partition_seq bigint, standing text
--   (null stands for: claimed_at not prefetched; crash_count and chain_index 0; chain_id and chain_type_name the job's own;
--   created_at and scheduled_at the same as ready_at; has_blockers no; partition_key, partition_seq and standing no key. A value that is nearly always the same costs more to send than to know.)
-- concurrency: as claim_jobs; one at a time, so that a job that kills its worker takes no other down with it.
--   passed is PostgreSQL's: here nobody else is just changing what stands in front.
--   One whose concurrency key has no place stands aside until somebody leaves it; one that lacks a start is due when there is one.
-- locks: the database's write lock.
-- part: moment
SELECT /*microseconds*/now() AS moment;
-- part: lacking
SELECT json_group_array(json_object('seq', seq, 'at', at)) AS lacking FROM (
    SELECT job.seq, iif(
        known.key_concurrency <= (
            SELECT count(*) FROM /*schema.*/job AS runner
            WHERE runner.queue = job.queue AND runner.concurrency_key = job.concurrency_key AND runner.status = 'running'
        ), 0,
        iif(known.key_burst + 0.000001 - max(0, ifnull(state.full_at, 0) - :moment) / 1000000.0 * known.key_rate < 1,
            min(state.full_at, :moment + CAST(known.key_burst * 1000000 / known.key_rate AS INTEGER))
                - CAST((known.key_burst - 1) * 1000000 / known.key_rate AS INTEGER), NULL)
    ) AS at
    FROM json_each(:queues) AS asked
    CROSS JOIN /*schema.*/queue AS known ON known.name = asked.value
    CROSS JOIN /*schema.*/job AS job INDEXED BY /*name*/job_suspect_idx
    LEFT JOIN /*schema.*/limited_key AS state ON state.queue = job.queue AND state.concurrency_key = job.concurrency_key
    WHERE (known.key_concurrency IS NOT NULL OR known.key_rate IS NOT NULL)
      AND job.status = 'pending' AND job.held = 0 AND job.crash_count > 0
      AND job.queue = asked.value AND job.ready_at <= :now AND job.concurrency_key IS NOT NULL
    LIMIT 100
) WHERE at IS NOT NULL;
-- part: aside
-- if: lacking
UPDATE /*schema.*/job AS job
SET held = due.at = 0, limited = due.at = 0,
    ready_at = iif(due.at = 0, ready_at, max(ready_at,
        strftime('%Y-%m-%dT%H:%M:%S', due.at / 1000000, 'unixepoch') || printf('.%06dZ', due.at % 1000000)))
FROM (SELECT json_extract(value, '$.seq') AS seq, json_extract(value, '$.at') AS at FROM json_each(:lacking)) AS due
WHERE job.seq = due.seq;
-- part: claimed
SELECT json_group_array(json_array(
    id, lease_generation + 1, type_name, input, attempt + 1, queue, priority, ready_at, seq, timeout_ms,
    NULL, nullif(crash_count, 0), nullif(chain_id, id), nullif(chain_index, 0),
    nullif(chain_type_name, type_name), nullif(created_at, ready_at), nullif(scheduled_at, ready_at), max_attempts,
    last_attempt_error, tenant, headers, iif(on_blocker_failure IS NOT NULL, 1, NULL),
    partition_key, partition_seq, iif(partition_key IS NULL, NULL, 'first')
)) AS claimed
FROM (
    SELECT job.*
    FROM json_each(:queues) AS asked
    CROSS JOIN /*schema.*/job AS job INDEXED BY /*name*/job_suspect_idx
    WHERE asked.value NOT IN (
          SELECT closed.name FROM /*schema.*/queue AS closed
          WHERE closed.paused_at IS NOT NULL AND (closed.resume_at IS NULL OR closed.resume_at > :now)
             OR (closed.concurrency IS NOT NULL OR closed.rate IS NOT NULL) AND NOT EXISTS (
                SELECT 1 FROM /*schema.*/queue_share AS share
                WHERE share.queue = closed.name AND share.worker_id = :worker
                  AND (closed.concurrency IS NULL OR share.permits > 0) AND (closed.rate IS NULL OR share.burst > 0)
             )
      )
      AND job.status = 'pending' AND job.held = 0 AND job.crash_count > 0
      AND job.queue = asked.value AND job.ready_at <= :now
      AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > :now)
      AND /*taste*/job
      AND (job.partition_key IS NULL OR NOT EXISTS (
          SELECT 1 FROM /*schema.*/job AS other
          WHERE other.queue = job.queue AND other.partition_key = job.partition_key
            AND other.status IN ('blocked', 'pending', 'running')
            AND (other.status = 'running' OR job.ordering = 'fifo' AND other.partition_seq < job.partition_seq)
      ))
      AND (job.concurrency_key IS NULL OR NOT EXISTS (
          SELECT 1 FROM /*schema.*/queue AS known
          LEFT JOIN /*schema.*/limited_key AS state
              ON state.queue = job.queue AND state.concurrency_key = job.concurrency_key
          WHERE known.name = job.queue AND (
              known.key_concurrency <= (
                  SELECT count(*) FROM /*schema.*/job AS runner
                  WHERE runner.queue = job.queue AND runner.concurrency_key = job.concurrency_key AND runner.status = 'running'
              )
              OR known.key_burst + 0.000001 - max(0, ifnull(state.full_at, 0) - :moment) / 1000000.0 * known.key_rate < 1
          )
      ))
    LIMIT 1
);
-- part: spent
INSERT INTO /*schema.*/limited_key AS state (queue, concurrency_key, full_at)
SELECT job.queue, job.concurrency_key,
       max(:moment, ifnull((
           SELECT full_at FROM /*schema.*/limited_key AS before
           WHERE before.queue = job.queue AND before.concurrency_key = job.concurrency_key
       ), 0)) + CAST(1000000 / known.key_rate AS INTEGER)
FROM json_each(:claimed)
CROSS JOIN /*schema.*/job AS job ON job.seq = json_extract(value, '$[8]')
CROSS JOIN /*schema.*/queue AS known ON known.name = job.queue
WHERE job.concurrency_key IS NOT NULL AND known.key_rate IS NOT NULL
ON CONFLICT (queue, concurrency_key) DO UPDATE SET full_at = excluded.full_at;
-- part: updated
UPDATE /*schema.*/job AS job
SET status = 'running', attempt = attempt + 1, lease_generation = lease_generation + 1,
    leased_by = :worker, last_attempt_at = :now,
    leased_until = strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :lease_ms / 1000.0)) || '000Z'
WHERE seq IN (SELECT json_extract(value, '$[8]') FROM json_each(:claimed));

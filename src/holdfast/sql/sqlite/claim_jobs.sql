-- claim_jobs: take up to /*limit*/100 claimable jobs, in the order of the lanes given.
-- params: now timestamptz, worker text, lanes json, lease_ms bigint, prefetch boolean, start_at bigint, drops json, run bigint, room integer, taste json, most bigint
-- returns: json rows of id text, lease_generation bigint, type_name text, input json, attempt smallint, queue text,
--   priority smallint, ready_at timestamptz, seq bigint, timeout_ms bigint, claimed_at timestamptz, crash_count smallint,
--   chain_id text, chain_index integer, chain_type_name text, created_at timestamptz, scheduled_at timestamptz,
--   max_attempts smallint, last_attempt_error json, tenant text, headers json, has_blockers boolean, partition_key text,
--   partition_seq bigint, standing text
--   (null stands for: claimed_at not prefetched; crash_count and chain_index 0; chain_id and chain_type_name the job's own;
--   created_at and scheduled_at the same as ready_at; has_blockers no; partition_key, partition_seq and standing no key. A value that is nearly always the same costs more to send than to know.)
-- concurrency: one writer at a time. The result is one row of JSON: the module gives up the interpreter lock around
--   every row it steps to, and getting it back from a busy event loop takes up to 5 ms.
--   What should have been started by now and was not is left to expire_jobs.
--   Of a partition key the first unfinished job is claimed, or a serial one, if nothing of the key runs; and
--   behind a first one up to run that come next, no more than room in all. Others are set aside; who frees the key puts them back.
--   standing is 'first' of those of its key, or 'follows' for one that came along behind another. A row without id tells of a lane in which
--   jobs were left: how many were set aside (lease_generation) or passed by (timeout_ms), and the last one's place.
--   Of jobs whose concurrency keys are limited those that may not start now are set aside; who makes room puts them back. Where
--   a rate keeps them, the first is due when it may start, and whoever claims that one makes the next one due. More than a
--   whole burst cannot have been spent: what says so was written before the clock was put back, and counts for a burst.
--   Lanes with a tenant are those of jobs that go by tenant; of each no more than most are taken.
--   A paused queue gives out nothing, and a limited one nothing to a worker that has no share of it: see share_queue.
--   What is not to the worker's taste it passes by: jobs with a forbidden flag, and jobs of partition keys that fall into
--   buckets that are not its own (mask), unless they have been due for 10 s.
--   CROSS JOIN keeps the loop order: the lanes as given, each in index order, no further than the limit.
-- locks: the database's write lock.
-- part: seen
SELECT json_group_array(json_array(
    id, lease_generation + 1, type_name, input, attempt + 1, queue, priority, ready_at, seq, timeout_ms,
    iif(:prefetch, :now, NULL), nullif(crash_count, 0), nullif(chain_id, id), nullif(chain_index, 0),
    nullif(chain_type_name, type_name), nullif(created_at, ready_at), nullif(scheduled_at, ready_at), max_attempts,
    last_attempt_error, tenant, headers, iif(on_blocker_failure IS NOT NULL, 1, NULL),
    partition_key, partition_seq,
        CASE WHEN partition_key IS NULL THEN NULL
             WHEN EXISTS (
                 SELECT 1 FROM /*schema.*/job AS runner
                 WHERE runner.queue = candidate.queue AND runner.partition_key = candidate.partition_key
                   AND runner.status = 'running' AND runner.held = 0
             ) THEN 'aside'
             WHEN ordering = 'fifo' AND EXISTS (
                 SELECT 1 FROM /*schema.*/job AS earlier
                 WHERE earlier.queue = candidate.queue AND earlier.partition_key = candidate.partition_key
                   AND earlier.status IN ('blocked', 'pending', 'running')
                   AND earlier.partition_seq < candidate.partition_seq
             ) THEN 'aside'
             WHEN ordering = 'fifo' AND NOT EXISTS (
                 SELECT 1 FROM /*schema.*/job AS door
                 WHERE door.queue = candidate.queue AND door.partition_key = candidate.partition_key
                   AND door.status = 'pending' AND door.held = 0 AND door.ordering = 'serial' AND door.ready_at <= :now
                   AND (door.expires_at IS NULL OR door.attempt > 0 OR door.expires_at > :now)
                   AND /*taste*/door
                   AND (door.priority, door.ready_at, door.seq) < (candidate.priority, candidate.ready_at, candidate.seq)
             ) THEN 'first'
             WHEN seq = (
                 SELECT door.seq FROM /*schema.*/job AS door
                 WHERE door.queue = candidate.queue AND door.partition_key = candidate.partition_key
                   AND door.status = 'pending' AND door.held = 0 AND door.ordering = 'serial' AND door.ready_at <= :now
                   AND (door.expires_at IS NULL OR door.attempt > 0 OR door.expires_at > :now)
                   AND /*taste*/door
                 ORDER BY door.priority, door.ready_at, door.seq LIMIT 1
             ) AND NOT EXISTS (
                 SELECT 1 FROM /*schema.*/job AS front
                 WHERE front.seq = (
                     SELECT first.seq FROM /*schema.*/job AS first
                     WHERE first.queue = candidate.queue AND first.partition_key = candidate.partition_key
                       AND first.status IN ('blocked', 'pending', 'running')
                     ORDER BY first.partition_seq LIMIT 1
                 ) AND front.ordering = 'fifo' AND front.status = 'pending' AND front.held = 0 AND front.ready_at <= :now
                   AND (front.expires_at IS NULL OR front.attempt > 0 OR front.expires_at > :now)
                   AND /*taste*/front
                   AND (front.priority, front.ready_at, front.seq) < (candidate.priority, candidate.ready_at, candidate.seq)
             ) THEN 'first'
             ELSE 'passed' END
)) AS seen
FROM (
    SELECT job.*
    FROM json_each(:lanes) AS lane
    CROSS JOIN /*schema.*/job AS job INDEXED BY /*name*/job_claim_idx
    WHERE json_extract(lane.value, '$.tenant') IS NULL AND json_extract(lane.value, '$.queue') NOT IN (
          SELECT closed.name FROM /*schema.*/queue AS closed
          WHERE closed.paused_at IS NOT NULL AND (closed.resume_at IS NULL OR closed.resume_at > :now)
             OR (closed.concurrency IS NOT NULL OR closed.rate IS NOT NULL) AND NOT EXISTS (
                SELECT 1 FROM /*schema.*/queue_share AS share
                WHERE share.queue = closed.name AND share.worker_id = :worker
                  AND (closed.concurrency IS NULL OR share.permits > 0) AND (closed.rate IS NULL OR share.burst > 0)
             )
      )
      AND job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 0
      AND job.queue = json_extract(lane.value, '$.queue') AND job.priority = json_extract(lane.value, '$.priority')
      AND (job.ready_at, job.seq) > (json_extract(lane.value, '$.ready_at'), json_extract(lane.value, '$.seq'))
      AND job.ready_at <= :now
      AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > :now)
      AND /*taste*/job
    UNION ALL
    SELECT job.*
    FROM json_each(:lanes) AS lane
    CROSS JOIN json_each((
        SELECT json_group_array(seq) FROM (
            SELECT job.seq FROM /*schema.*/job AS job INDEXED BY /*name*/job_fair_idx
            WHERE job.status = 'pending' AND job.held = 0 AND job.crash_count = 0 AND job.is_fair = 1
              AND job.queue = json_extract(lane.value, '$.queue') AND job.tenant = json_extract(lane.value, '$.tenant')
              AND job.priority = json_extract(lane.value, '$.priority')
              AND (job.ready_at, job.seq) > (json_extract(lane.value, '$.ready_at'), json_extract(lane.value, '$.seq'))
              AND job.ready_at <= :now
              AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > :now)
              AND /*taste*/job
            ORDER BY job.ready_at, job.seq LIMIT ifnull(:most, -1)
        )
    )) AS share
    CROSS JOIN /*schema.*/job AS job ON job.seq = share.value
    WHERE json_extract(lane.value, '$.tenant') IS NOT NULL AND json_extract(lane.value, '$.queue') NOT IN (
          SELECT closed.name FROM /*schema.*/queue AS closed
          WHERE closed.paused_at IS NOT NULL AND (closed.resume_at IS NULL OR closed.resume_at > :now)
             OR (closed.concurrency IS NOT NULL OR closed.rate IS NOT NULL) AND NOT EXISTS (
                SELECT 1 FROM /*schema.*/queue_share AS share
                WHERE share.queue = closed.name AND share.worker_id = :worker
                  AND (closed.concurrency IS NULL OR share.permits > 0) AND (closed.rate IS NULL OR share.burst > 0)
             )
      )
    LIMIT /*limit*/100
) AS candidate;
-- part: limits
-- if: seen
SELECT iif(NOT EXISTS (
    SELECT 1 FROM /*schema.*/queue AS known WHERE known.key_concurrency IS NOT NULL OR known.key_rate IS NOT NULL
), '[]', (
    WITH candidate AS MATERIALIZED (
        SELECT job.seq, job.queue, job.concurrency_key, job.priority, job.ready_at, job.tenant,
               known.key_concurrency, known.key_rate, known.key_burst,
               row_number() OVER (PARTITION BY job.queue, job.concurrency_key ORDER BY job.priority, job.ready_at, job.seq) AS place
        FROM json_each(:seen) AS sent
        CROSS JOIN /*schema.*/job AS job ON job.seq = json_extract(sent.value, '$[8]')
        CROSS JOIN /*schema.*/queue AS known ON known.name = job.queue
        WHERE job.concurrency_key IS NOT NULL AND (known.key_concurrency IS NOT NULL OR known.key_rate IS NOT NULL)
          AND ifnull(json_extract(sent.value, '$[24]'), 'first') = 'first'
    ),
    key AS MATERIALIZED (
        SELECT named.queue, named.concurrency_key,
               named.key_concurrency - (
                   SELECT count(*) FROM /*schema.*/job AS runner
                   WHERE runner.queue = named.queue AND runner.concurrency_key = named.concurrency_key
                     AND runner.status = 'running'
               ) AS places,
               CAST(max(0, named.key_burst + 0.000001
                   - max(0, ifnull(state.full_at, 0) - /*microseconds*/now()) / 1000000.0 * named.key_rate) AS INTEGER) AS starts,
               max(min(ifnull(state.full_at, 0), /*microseconds*/now()
                       + CAST(ifnull(named.key_burst * 1000000 / named.key_rate, 0) AS INTEGER)),
                   /*microseconds*/now()) AS full_at, state.due_at
        FROM (SELECT DISTINCT queue, concurrency_key, key_concurrency, key_rate, key_burst FROM candidate) AS named
        LEFT JOIN /*schema.*/limited_key AS state
            ON state.queue = named.queue AND state.concurrency_key = named.concurrency_key
    )
    SELECT json_group_array(json_object(
        'seq', candidate.seq, 'queue', candidate.queue, 'key', candidate.concurrency_key, 'priority', candidate.priority,
        'ready_at', candidate.ready_at, 'tenant', candidate.tenant, 'rate', candidate.key_rate, 'burst', candidate.key_burst,
        'starts', key.starts, 'places', max(0, key.places), 'full_at', key.full_at, 'due_at', key.due_at,
        'admitted', NOT :prefetch AND candidate.place <= ifnull(key.places, candidate.place)
                    AND (candidate.key_rate IS NULL OR candidate.place <= key.starts)
    ))
    FROM candidate CROSS JOIN key ON key.queue = candidate.queue AND key.concurrency_key = candidate.concurrency_key
)) AS limits;
-- part: moment
-- if: limits
SELECT /*microseconds*/now() AS moment;
-- part: limited
-- if: limits
UPDATE /*schema.*/job AS job SET held = 1, limited = 1
WHERE :limits <> '[]' AND NOT :prefetch AND seq IN (
    SELECT json_extract(value, '$.seq') FROM json_each(:limits) WHERE NOT json_extract(value, '$.admitted')
);
-- part: rates
-- if: limits
SELECT iif(:limits = '[]' OR :prefetch, '[]', (
    SELECT json_group_array(json_object(
        'queue', queue, 'key', key, 'starts', starts - admitted, 'places', ifnull(places - admitted, 100),
        'full_at', full_at + CAST(admitted * 1000000 / rate AS INTEGER),
        'next_at', full_at + CAST((admitted - (burst - 1)) * 1000000 / rate AS INTEGER), 'due_at', due_at
    ))
    FROM (
        SELECT json_extract(value, '$.queue') AS queue, json_extract(value, '$.key') AS key,
               json_extract(value, '$.rate') AS rate, json_extract(value, '$.burst') AS burst,
               json_extract(value, '$.starts') AS starts, json_extract(value, '$.places') AS places, json_extract(value, '$.full_at') AS full_at,
               json_extract(value, '$.due_at') AS due_at, sum(json_extract(value, '$.admitted')) AS admitted
        FROM json_each(:limits) WHERE json_extract(value, '$.rate') IS NOT NULL
        GROUP BY 1, 2
    )
)) AS rates;
-- part: due
-- if: rates
SELECT iif(:rates = '[]', '[]', (
    SELECT json_group_array(json_object('queue', queue, 'key', key, 'seq', seq, 'at', at)) FROM (
        SELECT job.queue, job.concurrency_key AS key, job.seq, json_extract(value, '$.next_at') AS at,
               min(max(1, json_extract(value, '$.starts')), json_extract(value, '$.places')) AS places,
               row_number() OVER (PARTITION BY job.queue, job.concurrency_key ORDER BY job.priority, job.ready_at, job.seq) AS place
        FROM json_each(:rates) AS spent
        CROSS JOIN /*schema.*/job AS job ON job.seq IN (
            SELECT waiting.seq FROM /*schema.*/job AS waiting
            WHERE waiting.queue = json_extract(spent.value, '$.queue')
              AND waiting.concurrency_key = json_extract(spent.value, '$.key')
              AND waiting.status = 'pending' AND waiting.limited = 1
            ORDER BY waiting.priority, waiting.ready_at, waiting.seq LIMIT 100
        )
        WHERE json_extract(value, '$.starts') >= 1 OR ifnull(json_extract(value, '$.due_at'), 0) <= :moment
           OR json_extract(value, '$.due_at') > json_extract(value, '$.next_at') + 1000
    ) WHERE place <= places
)) AS due;
-- part: put_back
-- if: due
UPDATE /*schema.*/job AS job
SET held = 0, limited = 0,
    ready_at = max(ready_at, (
        SELECT strftime('%Y-%m-%dT%H:%M:%S', json_extract(value, '$.at') / 1000000, 'unixepoch')
               || printf('.%06dZ', json_extract(value, '$.at') % 1000000)
        FROM json_each(:due) WHERE json_extract(value, '$.seq') = job.seq
    ))
WHERE :due <> '[]' AND seq IN (SELECT json_extract(value, '$.seq') FROM json_each(:due));
-- part: spent
-- if: rates
INSERT INTO /*schema.*/limited_key AS known (queue, concurrency_key, full_at, due_at)
SELECT json_extract(value, '$.queue'), json_extract(value, '$.key'), json_extract(value, '$.full_at'),
       (SELECT json_extract(due.value, '$.at') FROM json_each(:due) AS due
        WHERE json_extract(due.value, '$.queue') = json_extract(spent.value, '$.queue')
          AND json_extract(due.value, '$.key') = json_extract(spent.value, '$.key'))
FROM json_each(:rates) AS spent
WHERE :rates <> '[]'
ON CONFLICT (queue, concurrency_key) DO UPDATE
SET full_at = excluded.full_at, due_at = ifnull(excluded.due_at, known.due_at);
-- part: admitted
-- if: limits; else seen
SELECT iif(:limits = '[]', :seen, (
    SELECT json_group_array(json(value)) FROM json_each(:seen)
    WHERE json_extract(value, '$[8]') NOT IN (
        SELECT json_extract(value, '$.seq') FROM json_each(:limits) WHERE NOT json_extract(value, '$.admitted')
    )
)) AS admitted;
-- part: keyed
-- if: seen
-- A row ends with its standing, and within texts quotation marks are escaped: no need to take a tenth of a claim's time
-- for reading the document once more.
SELECT instr(:seen, '"first"]') OR instr(:seen, '"aside"]') OR instr(:seen, '"passed"]') AS keyed;
-- part: crowded
-- if: keyed
SELECT instr(:seen, '"aside"]') OR instr(:seen, '"passed"]') AS crowded;
-- part: aside
-- if: crowded
UPDATE /*schema.*/job AS job SET held = 1
WHERE seq IN (
    SELECT json_extract(value, '$[8]') FROM json_each(:seen) WHERE json_extract(value, '$[24]') = 'aside'
);
-- part: followers
-- if: keyed
SELECT iif(:keyed = 0 OR :run = 0, '[]', (
    WITH RECURSIVE head (queue, partition_key, partition_seq, share) AS (
        SELECT json_extract(value, '$[5]'), json_extract(value, '$[22]'),
               json_extract(value, '$[23]'),
               min(:run, (:room - (SELECT count(*) FROM json_each(:admitted)
                               WHERE ifnull(json_extract(value, '$[24]'), 'first') = 'first')) / count(*) OVER ())
        FROM json_each(:admitted)
        WHERE json_extract(value, '$[24]') = 'first' AND json_extract(value, '$[4]') = 1
          AND (SELECT job.ordering FROM /*schema.*/job AS job WHERE job.seq = json_extract(value, '$[8]')) = 'fifo'
          AND json_extract(value, '$[8]') NOT IN (SELECT json_extract(value, '$.seq') FROM json_each(:limits))
    ),
    run (queue, partition_key, partition_seq, seq, room) AS (
        SELECT queue, partition_key, partition_seq, NULL, share FROM head
        UNION ALL
        SELECT run.queue, run.partition_key, job.partition_seq, job.seq, run.room - 1
        FROM run CROSS JOIN /*schema.*/job AS job ON job.seq = (
            SELECT next.seq FROM /*schema.*/job AS next
            WHERE next.queue = run.queue AND next.partition_key = run.partition_key
              AND next.status IN ('blocked', 'pending', 'running') AND next.partition_seq > run.partition_seq
            ORDER BY next.partition_seq LIMIT 1
        )
        WHERE run.room > 0 AND NOT (job.concurrency_key IS NOT NULL AND job.queue IN (
              SELECT known.name FROM /*schema.*/queue AS known WHERE known.key_concurrency IS NOT NULL OR known.key_rate IS NOT NULL
          )) AND job.status = 'pending' AND job.attempt = 0 AND job.crash_count = 0 AND job.ordering = 'fifo'
          AND job.ready_at <= :now AND (job.expires_at IS NULL OR job.expires_at > :now)
          AND (:taste IS NULL OR job.flags IS NULL OR NOT EXISTS (
              SELECT 1 FROM json_each(job.flags) AS flag
              WHERE flag.value IN (SELECT value FROM json_each(:taste, '$.forbidden'))
          ))
    )
    SELECT json_group_array(json_array(
        id, lease_generation + 1, type_name, input, attempt + 1, queue, priority, ready_at, seq, timeout_ms,
    iif(:prefetch, :now, NULL), nullif(crash_count, 0), nullif(chain_id, id), nullif(chain_index, 0),
    nullif(chain_type_name, type_name), nullif(created_at, ready_at), nullif(scheduled_at, ready_at), max_attempts,
    last_attempt_error, tenant, headers, iif(on_blocker_failure IS NOT NULL, 1, NULL),
        partition_key, partition_seq, 'follows'
    ))
    FROM (
        SELECT job.* FROM run CROSS JOIN /*schema.*/job AS job ON job.seq = run.seq
    )
)) AS followers;
-- part: behind
-- if: keyed
SELECT iif(:followers = '[]', '[]', (
    SELECT json_group_array(seq) FROM (
        SELECT json_extract(value, '$[8]') AS seq,
               lead(1) OVER (PARTITION BY json_extract(value, '$[5]'), json_extract(value, '$[22]')
                             ORDER BY json_extract(value, '$[23]')) AS has_next
        FROM (
            SELECT value FROM json_each(:admitted) WHERE json_extract(value, '$[24]') = 'first'
            UNION ALL SELECT value FROM json_each(:followers)
        )
    ) WHERE has_next
)) AS behind;
-- part: updated
-- if: seen
UPDATE /*schema.*/job AS job
SET status = 'running', attempt = attempt + 1, lease_generation = lease_generation + 1,
    held = :followers <> '[]' AND seq IN (SELECT value FROM json_each(:behind)),
    leased_by = :worker, last_attempt_at = :now,
    leased_until = strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :lease_ms / 1000.0)) || '000Z'
WHERE seq IN (
    SELECT json_extract(value, '$[8]') FROM json_each(:admitted)
    WHERE NOT :keyed OR ifnull(json_extract(value, '$[24]'), 'first') = 'first'
    UNION ALL
    SELECT json_extract(value, '$[8]') FROM json_each(:followers)
);
-- part: promoted
-- if: start_at
UPDATE /*schema.*/prefetch AS prefetch SET is_promoted = 1 WHERE worker_id = :worker AND claimed_at = :start_at;
-- part: dropped
-- if: drops
DELETE FROM /*schema.*/prefetch AS prefetch
WHERE worker_id = :worker AND claimed_at IN (SELECT value FROM json_each(:drops));
-- part: marked
-- if: prefetch
INSERT OR IGNORE INTO /*schema.*/prefetch (worker_id, claimed_at)
SELECT :worker, :now WHERE :prefetch AND EXISTS (
    SELECT 1 FROM json_each(:admitted) WHERE ifnull(json_extract(value, '$[24]'), 'first') = 'first'
);
-- part: claimed
-- if: keyed or limits; else admitted
SELECT CASE WHEN :limits = '[]' AND NOT :keyed THEN :admitted
WHEN :limits = '[]' AND NOT :crowded THEN
    iif(:followers = '[]', :admitted, substr(:admitted, 1, length(:admitted) - 1) || ',' || substr(:followers, 2))
ELSE (
    SELECT json_group_array(json(row)) FROM (
        SELECT value AS row FROM json_each(:admitted) WHERE ifnull(json_extract(value, '$[24]'), 'first') = 'first'
        UNION ALL
        SELECT value FROM json_each(:followers)
        UNION ALL
        SELECT json_array(NULL, sum(json_extract(value, '$[24]') = 'aside'), NULL, NULL, NULL,
            json_extract(value, '$[5]'), json_extract(value, '$[6]'), max(json_extract(value, '$[7]')),
            max(json_extract(value, '$[8]')), sum(json_extract(value, '$[24]') = 'passed'),
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, iif(:most IS NULL, NULL, json_extract(value, '$[19]')), NULL, NULL, NULL, NULL, NULL)
        FROM json_each(:admitted) WHERE json_extract(value, '$[24]') IN ('aside', 'passed')
        GROUP BY json_extract(value, '$[5]'), json_extract(value, '$[6]'), iif(:most IS NULL, NULL, json_extract(value, '$[19]'))
        UNION ALL
        SELECT json_array(NULL, sum(NOT :prefetch), NULL, NULL, NULL,
            json_extract(value, '$.queue'), json_extract(value, '$.priority'), max(json_extract(value, '$.ready_at')),
            max(json_extract(value, '$.seq')), sum(:prefetch),
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, iif(:most IS NULL, NULL, json_extract(value, '$.tenant')), NULL, NULL, NULL, NULL, NULL)
        FROM json_each(:limits) WHERE NOT json_extract(value, '$.admitted')
        GROUP BY json_extract(value, '$.queue'), json_extract(value, '$.priority'), iif(:most IS NULL, NULL, json_extract(value, '$.tenant'))
    )
) END AS claimed;

-- free_limits: let jobs that wait for the limits of their concurrency keys be claimed, so many of each key.
-- params: now timestamptz, keys json
-- returns: queue text
-- concurrency: as when as many leave the key: see job_left_limit.
-- locks: the database's write lock.
-- part: freed
UPDATE /*schema.*/job AS job SET held = 0, limited = 0, ready_at = max(ready_at, :now)
WHERE seq IN (
    SELECT seq FROM (
        SELECT waiting.seq, json_extract(value, '$.places') AS places,
               row_number() OVER (PARTITION BY waiting.queue, waiting.concurrency_key
                                  ORDER BY waiting.priority, waiting.ready_at, waiting.seq) AS place
        FROM json_each(:keys)
        CROSS JOIN /*schema.*/job AS waiting ON waiting.seq IN (
            SELECT first.seq FROM /*schema.*/job AS first
            WHERE first.queue = json_extract(value, '$.queue')
              AND first.concurrency_key = json_extract(value, '$.concurrency_key')
              AND first.status = 'pending' AND first.limited = 1
            ORDER BY first.priority, first.ready_at, first.seq LIMIT 1000
        )
    ) WHERE place <= places
);
-- part: queues
SELECT DISTINCT json_extract(value, '$.queue') AS queue FROM json_each(:keys);

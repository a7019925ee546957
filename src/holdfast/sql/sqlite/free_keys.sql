-- free_keys: make the next jobs of partition keys claimable, where nothing of these runs.
-- params: now timestamptz, keys json
-- returns: queue text
-- concurrency: as when a job leaves its key: see job_left_key.
-- locks: the database's write lock.
-- part: idle
SELECT json_group_array(json(value)) AS idle
FROM json_each(:keys)
WHERE NOT EXISTS (
    SELECT 1 FROM /*schema.*/job AS holder
    WHERE holder.queue = json_extract(value, '$.queue') AND holder.partition_key = json_extract(value, '$.partition_key')
      AND holder.status = 'running' AND holder.held = 0
) AND NOT EXISTS (
    SELECT 1 FROM /*schema.*/job AS other
    WHERE other.queue = json_extract(value, '$.queue') AND other.partition_key = json_extract(value, '$.partition_key')
      AND other.status = 'running' AND other.held = 1
);
-- part: freed
UPDATE /*schema.*/job AS job SET held = 0, ready_at = max(ready_at, :now)
WHERE +status = 'pending' AND +held = 1 AND limited = 0 AND seq IN (
    SELECT (
        SELECT seq FROM /*schema.*/job AS first
        WHERE first.queue = json_extract(value, '$.queue') AND first.partition_key = json_extract(value, '$.partition_key')
          AND first.status IN ('blocked', 'pending', 'running')
        ORDER BY first.partition_seq LIMIT 1
    ) FROM json_each(:idle)
    UNION ALL
    SELECT (
        SELECT seq FROM /*schema.*/job AS serial
        WHERE serial.queue = json_extract(value, '$.queue') AND serial.partition_key = json_extract(value, '$.partition_key')
          AND serial.status = 'pending' AND serial.held = 1 AND serial.limited = 0 AND serial.ordering = 'serial' AND serial.ready_at <= :now
        ORDER BY serial.priority, serial.ready_at, serial.seq LIMIT 1
    ) FROM json_each(:idle)
    UNION ALL
    SELECT (
        SELECT seq FROM /*schema.*/job AS plain
        WHERE plain.queue = json_extract(value, '$.queue') AND plain.partition_key = json_extract(value, '$.partition_key')
          AND plain.status = 'pending' AND plain.held = 1 AND plain.limited = 0 AND plain.ordering = 'serial'
          AND plain.flags IS NULL AND plain.ready_at <= :now
        ORDER BY plain.priority, plain.ready_at, plain.seq LIMIT 1
    ) FROM json_each(:idle)
);
-- part: queues
SELECT json_extract(value, '$.queue') AS queue FROM json_each(:idle);

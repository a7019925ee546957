-- read_throughput: how attempts ended in the minutes since `within_ms` ago, oldest first.
-- params: now timestamptz, within_ms bigint
-- returns: minute json
-- concurrency: read only; by the primary key.
-- locks: none.
SELECT json_object('minute', throughput.minute, 'queue', queue, 'type_name', type_name, 'completed', completed,
                   'failed', failed) AS minute
FROM /*schema.*/throughput AS throughput
WHERE throughput.minute > strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :within_ms / 1000.0)) || '000Z'
ORDER BY throughput.minute, queue, type_name;

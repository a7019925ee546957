-- read_throughput: how attempts ended in the minutes since `within_ms` ago, oldest first.
-- params: now timestamptz, within_ms bigint
-- returns: minute json
-- concurrency: read only; by the primary key.
-- locks: none.
SELECT to_json(throughput)::text AS minute
FROM /*schema.*/throughput AS throughput
WHERE throughput.minute > /*moment*/statement_timestamp()
                          - CAST(:within_ms AS bigint) * interval '1 millisecond'
ORDER BY throughput.minute, queue, type_name;

-- report_outcomes: add what a worker has written to the throughput of this minute.
-- params: now timestamptz, outcomes json
-- returns: none
-- concurrency: additions to rows that all workers share, in the order of their keys, apart from everything else.
-- locks: rows of throughput by key.
INSERT INTO /*schema.*/throughput AS known (minute, queue, type_name, completed, failed)
SELECT date_trunc('minute', /*moment*/statement_timestamp()),
       queue, type_name, completed, failed
FROM json_to_recordset(CAST(CAST(:outcomes AS text) AS json)) AS sent (
    queue text, type_name text, completed bigint, failed bigint
)
ORDER BY queue, type_name
ON CONFLICT (minute, queue, type_name) DO UPDATE
SET completed = known.completed + excluded.completed, failed = known.failed + excluded.failed;

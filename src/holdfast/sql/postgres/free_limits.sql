-- free_limits: let jobs that wait for the limits of their concurrency keys be claimed, so many of each key.
-- params: now timestamptz, keys json
-- returns: queue text
-- concurrency: as when as many leave the key: see the function of this name.
-- locks: job rows, never waited for.
WITH asked AS MATERIALIZED (
    SELECT array_agg(queue) AS queues, array_agg(concurrency_key) AS keys
    FROM json_to_recordset(CAST(CAST(:keys AS text) AS json)) AS sent (queue text, concurrency_key text, places bigint),
         generate_series(1, places)
)
SELECT freed.woken_queue AS queue
FROM asked CROSS JOIN LATERAL /*schema.*/free_limits(
    asked.queues, asked.keys, /*moment*/statement_timestamp()
) AS freed
WHERE asked.queues IS NOT NULL;

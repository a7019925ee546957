-- free_keys: make the next jobs of partition keys claimable, where nothing of these runs.
-- params: now timestamptz, keys json
-- returns: queue text
-- concurrency: as when a job leaves its key: see the function of this name.
-- locks: job rows, never waited for.
WITH asked AS MATERIALIZED (
    SELECT array_agg(queue) AS queues, array_agg(partition_key) AS keys
    FROM json_to_recordset(CAST(CAST(:keys AS text) AS json)) AS sent (queue text, partition_key text)
)
SELECT freed.woken_queue AS queue
FROM asked CROSS JOIN LATERAL /*schema.*/free_keys(
    asked.queues, asked.keys, /*moment*/statement_timestamp()
) AS freed
WHERE asked.queues IS NOT NULL;

-- insert_jobs: insert new jobs that have none of the rarer options, in the order given.
-- params: now timestamptz, jobs json, queues json, channel text
-- returns: hints bigint
-- prepared: yes (as enqueue_jobs)
-- concurrency: a plain insert on the caller's transaction. The ids were made for this try: one that exists is an error, and
--   looking for each beforehand, as enqueue_jobs does, costs a fifth of the time. With a channel, one NOTIFY per queue goes
--   out with the commit.
-- locks: the inserted rows only.
WITH created AS (
    INSERT INTO /*schema.*/job (
        id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at,
        max_attempts, timeout_ms, headers
    )
    SELECT id, id, type_name, type_name, queue, coalesce(priority, 0), input, moment, due, due,
           max_attempts, timeout_ms, headers
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS sent (
        id /*id*/uuid, type_name text, queue text, priority smallint, input json, scheduled_at timestamptz,
        delay_ms bigint, max_attempts smallint, timeout_ms bigint, headers json
    ),
    LATERAL (SELECT /*moment*/statement_timestamp() AS moment) AS clock,
    LATERAL (
        SELECT greatest(moment, coalesce(scheduled_at, moment + delay_ms * interval '1 millisecond')) AS due
    ) AS schedule
)
SELECT count(pg_notify(CAST(:channel AS text), queue)::text) AS hints
FROM json_array_elements_text(CAST(CAST(:queues AS text) AS json)) AS woken (queue)
WHERE CAST(:channel AS text) IS NOT NULL;

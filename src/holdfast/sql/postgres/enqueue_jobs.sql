-- enqueue_jobs: insert jobs, in the order given.
-- params: now timestamptz, jobs json, has_given_ids boolean, channel text
-- returns: existing text (JSON array of the given ids that were there before), hints bigint
-- prepared: yes (an insert has one plan, and parsing this one costs more than running it for a single job)
-- concurrency: a plain insert on the caller's transaction; an id that exists already is kept, so a retry after an
--   ambiguous commit adds nothing. A job behind another one of its batch and partition key is held from the start: nobody
--   can have claimed the one in front before. With a channel, one NOTIFY per queue goes out with the commit.
-- locks: the inserted rows only.
WITH created AS (
    INSERT INTO /*schema.*/job (
        id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at,
        max_attempts, timeout_ms, tenant, headers, status, waiting_for, on_blocker_failure, expires_at,
        deduplication_key, deduplication_scope, partition_key, partition_bucket, partition_seq, ordering, held,
        concurrency_key, flags, is_fair
    )
    SELECT id, id, type_name, type_name, queue, coalesce(priority, 0), input, moment, due, due,
           max_attempts, timeout_ms, tenant, headers,
           CASE WHEN more ->> 'waiting_for' IS NULL THEN 'pending' ELSE 'blocked' END,
           coalesce(CAST(more ->> 'waiting_for' AS smallint), 0), more ->> 'on_blocker_failure',
           coalesce(CAST(more ->> 'expires_at' AS timestamptz),
                    moment + CAST(more ->> 'expires_ms' AS bigint) * interval '1 millisecond'),
           more ->> 'deduplication_key', more ->> 'deduplication_scope',
           more ->> 'partition_key', CAST(more ->> 'partition_bucket' AS smallint),
           CASE WHEN more ->> 'partition_key' IS NOT NULL THEN nextval('/*schema.*/partition_place') END,
           more ->> 'ordering', coalesce(CAST(more ->> 'held' AS boolean), false), more ->> 'concurrency_key',
           CASE WHEN more ->> 'flags' IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(more -> 'flags')) END,
           tenant IS NOT NULL AND queue = ANY (ARRAY(SELECT known.name FROM /*schema.*/queue AS known WHERE known.fair_by = 'tenant'))
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS sent (
        id /*id*/uuid, type_name text, queue text, priority smallint, input json, scheduled_at timestamptz,
        delay_ms bigint, max_attempts smallint, timeout_ms bigint, tenant text, headers json, more json
    ),
    LATERAL (SELECT /*moment*/statement_timestamp() AS moment) AS clock,
    LATERAL (
        SELECT greatest(moment, coalesce(scheduled_at, moment + delay_ms * interval '1 millisecond')) AS due
    ) AS schedule
    ON CONFLICT (id) DO NOTHING
    RETURNING id, queue
)
SELECT CASE WHEN CAST(:has_given_ids AS boolean) THEN (
           SELECT coalesce(json_agg(id), '[]')::text
           FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS sent (id /*id*/uuid)
           WHERE id NOT IN (SELECT id FROM created)
       ) ELSE '[]' END AS existing,
       count(CASE WHEN CAST(:channel AS text) IS NOT NULL THEN pg_notify(CAST(:channel AS text), queue)::text END)
           AS hints
FROM (SELECT DISTINCT queue FROM created) AS woken;

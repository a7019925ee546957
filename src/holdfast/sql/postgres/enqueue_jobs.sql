-- enqueue_jobs: insert jobs, in the order given.
-- params: now timestamptz, jobs json, channel text
-- returns: existing json (the jobs whose id was there before: [{id, status}])
-- concurrency: a plain insert on the caller's transaction; an id that exists already is kept, so a retry after an
--   ambiguous commit adds nothing. With a channel, one NOTIFY per queue goes out with the commit.
-- locks: the inserted rows only.
WITH sent AS MATERIALIZED (
    SELECT *, coalesce(CAST(:now AS timestamptz), statement_timestamp()) AS moment
    FROM json_to_recordset(CAST(CAST(:jobs AS text) AS json)) AS document (
        id /*id*/uuid, type_name text, queue text, priority smallint, input json, scheduled_at timestamptz,
        delay_ms bigint, max_attempts smallint, timeout_ms bigint, tenant text, headers json
    )
),
created AS (
    INSERT INTO /*schema.*/job (
        id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at,
        max_attempts, timeout_ms, tenant, headers
    )
    SELECT id, id, type_name, type_name, queue, coalesce(priority, 0), input, moment, due, due,
           max_attempts, timeout_ms, tenant, headers
    FROM sent,
         LATERAL (
             SELECT greatest(moment, coalesce(scheduled_at, moment + delay_ms * interval '1 millisecond')) AS due
         ) AS schedule
    ON CONFLICT (id) DO NOTHING
    RETURNING id
),
hinted AS (
    SELECT count(pg_notify(CAST(:channel AS text), queue)) AS hints
    FROM (SELECT DISTINCT queue FROM sent WHERE CAST(:channel AS text) IS NOT NULL) AS woken
)
SELECT CASE
    WHEN (SELECT count(*) FROM created) = (SELECT count(*) FROM sent) THEN '[]'
    ELSE (
        SELECT coalesce(json_agg(json_build_object('id', sent.id, 'status', job.status)), '[]')::text
        FROM sent LEFT JOIN /*schema.*/job AS job USING (id)
        WHERE NOT EXISTS (SELECT FROM created WHERE created.id = sent.id)
    )
END AS existing
FROM hinted;

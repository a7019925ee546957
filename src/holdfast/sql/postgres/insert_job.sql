-- insert_job: insert a new job that has none of the rarer options.
-- params: now timestamptz, id uuid, type_name text, queue text, priority smallint, input json, scheduled_at timestamptz, delay_ms bigint, max_attempts smallint, timeout_ms bigint, headers json, channel text
-- returns: none
-- prepared: yes (as enqueue_jobs)
-- concurrency: as insert_jobs, for one job: without a document to take apart the server works a seventh less. With a
--   channel, a NOTIFY goes out with the commit.
-- locks: the inserted row only.
INSERT INTO /*schema.*/job (
    id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at,
    max_attempts, timeout_ms, headers
)
SELECT CAST(:id AS /*id*/uuid), CAST(:id AS /*id*/uuid), CAST(:type_name AS text), CAST(:type_name AS text),
       CAST(:queue AS text), CAST(:priority AS smallint), CAST(CAST(:input AS text) AS json), moment, due, due,
       CAST(:max_attempts AS smallint), CAST(:timeout_ms AS bigint), CAST(CAST(:headers AS text) AS json)
FROM (SELECT /*moment*/statement_timestamp() AS moment) AS clock,
LATERAL (
    SELECT greatest(moment, coalesce(CAST(:scheduled_at AS timestamptz),
                                     moment + CAST(:delay_ms AS bigint) * interval '1 millisecond')) AS due
) AS schedule
RETURNING CASE WHEN CAST(:channel AS text) IS NOT NULL THEN pg_notify(CAST(:channel AS text), queue) END;

-- register_worker: say that a worker lives, with what others should know of it.
-- params: now timestamptz, worker text, version text, queues json, metadata json
-- returns: none
-- concurrency: an upsert of the worker's own row; a worker that was taken for dead is alive again.
-- locks: one worker row.
INSERT INTO /*schema.*/worker AS known (id, status, started_at, last_seen_at, heard_since, version, queues, metadata)
SELECT CAST(:worker AS text), 'alive', moment, moment, moment, CAST(:version AS text),
       CAST(CAST(:queues AS text) AS json), CAST(CAST(:metadata AS text) AS json)
FROM (SELECT /*moment*/statement_timestamp() AS moment) AS clock
ON CONFLICT (id) DO UPDATE
SET status = 'alive', last_seen_at = excluded.last_seen_at, heard_since = excluded.heard_since,
    version = excluded.version, queues = excluded.queues, metadata = excluded.metadata;

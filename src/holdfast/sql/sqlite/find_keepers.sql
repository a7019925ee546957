-- find_keepers: the living workers of an app, with the schedules that their code has.
-- params: app text
-- returns: id text, started_at text, schedules json (by name, the definition of each)
-- concurrency: read only; reads every worker. One that has just died is among them until it is marked dead.
-- locks: none.
SELECT id, started_at, ifnull(json_extract(metadata, '$.schedules'), '{}') AS schedules
FROM /*schema.*/worker AS worker
WHERE status <> 'dead' AND json_extract(metadata, '$.app') = :app
ORDER BY id;

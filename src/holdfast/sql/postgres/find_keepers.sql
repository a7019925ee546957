-- find_keepers: the living workers of an app, with the schedules that their code has.
-- params: app text
-- returns: id text, started_at text, schedules json (by name, the definition of each)
-- concurrency: read only; reads every worker. One that has just died is among them until it is marked dead.
-- locks: none.
SELECT id, to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS started_at,
       coalesce((metadata -> 'schedules')::text, '{}') AS schedules
FROM /*schema.*/worker AS worker
WHERE status <> 'dead' AND metadata ->> 'app' = CAST(:app AS text)
ORDER BY id;

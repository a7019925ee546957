-- read_services: when the services of the worker that leads were last done with a round.
-- params: now timestamptz
-- returns: name text, worker_id text, ago_ms bigint
-- concurrency: read only; as many rows as there are services.
-- locks: none.
SELECT name, worker_id,
       (extract(epoch FROM /*moment*/statement_timestamp() - succeeded_at) * 1000)::bigint AS ago_ms
FROM /*schema.*/service AS service
ORDER BY name;

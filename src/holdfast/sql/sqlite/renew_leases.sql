-- renew_leases: extend the leases of the given holders.
-- params: now timestamptz, leases json, lease_ms bigint
-- returns: id text, outcome text (only what was not renewed: 'lost' = stop working on it)
-- concurrency: fenced by (id, lease_generation, running).
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET leased_until = strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :lease_ms / 1000.0)) || '000Z'
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.lease_generation') AS lease_generation
    FROM json_each(:leases)
) AS sent
WHERE job.id = sent.id AND job.lease_generation = sent.lease_generation AND job.status = 'running';
-- part: exceptions
SELECT json_extract(value, '$.id') AS id, 'lost' AS outcome
FROM json_each(:leases)
WHERE NOT EXISTS (
    SELECT 1 FROM /*schema.*/job AS job
    WHERE job.id = json_extract(value, '$.id') AND job.status = 'running'
      AND job.lease_generation = json_extract(value, '$.lease_generation')
);

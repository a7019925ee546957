-- release_jobs: give claimed jobs back untouched, each to its old place.
-- params: jobs json
-- returns: id text, outcome text (only what was not released: 'lost' = not yours any more)
-- concurrency: fenced by (id, lease_generation, running). The attempt is refunded, the generation is not: it only grows.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = 'pending', attempt = attempt - 1, leased_by = NULL, leased_until = NULL
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.lease_generation') AS lease_generation
    FROM json_each(:jobs)
) AS sent
WHERE job.id = sent.id AND job.lease_generation = sent.lease_generation AND job.status = 'running';
-- part: exceptions
SELECT json_extract(value, '$.id') AS id, 'lost' AS outcome
FROM json_each(:jobs)
WHERE NOT EXISTS (
    SELECT 1 FROM /*schema.*/job AS job
    WHERE job.id = json_extract(value, '$.id') AND job.status = 'pending'
      AND job.lease_generation = json_extract(value, '$.lease_generation')
);

-- lock_chains: lock every job of chains that are to be deleted, and read them.
-- params: chains json, patient boolean
-- returns: asked text, chain_id text, id text, chain_index integer, is_tail boolean, status text, attempt smallint,
--   lease_generation bigint, finished_at text, sees_commits boolean (one row per job)
-- concurrency: inside a write transaction. The id of any job names its chain; chains that do not exist have no row.
--   patient is PostgreSQL's.
-- locks: the database's write lock.
SELECT named.id AS asked, job.chain_id AS chain_id, job.id AS id, job.chain_index, job.is_tail, job.status, job.attempt,
       job.lease_generation, job.finished_at, 1 AS sees_commits
FROM json_each(:chains) AS sent
CROSS JOIN /*schema.*/job AS named ON named.id = sent.value
CROSS JOIN /*schema.*/job AS job ON job.id = named.chain_id
UNION ALL
SELECT named.id, job.chain_id, job.id, job.chain_index, job.is_tail, job.status, job.attempt, job.lease_generation,
       job.finished_at, 1
FROM json_each(:chains) AS sent
CROSS JOIN /*schema.*/job AS named ON named.id = sent.value
CROSS JOIN /*schema.*/job AS job ON job.chain_id = named.chain_id
WHERE job.chain_index > 0;

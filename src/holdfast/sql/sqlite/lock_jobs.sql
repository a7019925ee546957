-- lock_jobs: lock the jobs that a verb is about, and read them.
-- params: jobs json, tails boolean, neighbours text, patient boolean
-- returns: asked text, id text, chain_id text, is_tail boolean, status text, queue text, attempt smallint,
--   waiting_for smallint, lease_generation bigint, type_name text, tenant text, was_found boolean
-- concurrency: inside a write transaction nothing changes between reading and writing. With tails, the id of any job names
--   its chain, and the chain's last job is read. neighbours is PostgreSQL's, patient is PostgreSQL's.
-- locks: the database's write lock.
SELECT asked.value AS asked, job.id AS id, job.chain_id AS chain_id, job.is_tail, job.status, job.queue, job.attempt,
       job.waiting_for, job.lease_generation, job.type_name, job.tenant, named.id IS NOT NULL AS was_found
FROM json_each(:jobs) AS asked
LEFT JOIN /*schema.*/job AS named ON named.id = asked.value
LEFT JOIN /*schema.*/job AS job ON job.id = CASE WHEN named.is_tail OR NOT :tails THEN named.id ELSE (
    SELECT tail.id FROM /*schema.*/job AS tail
    WHERE tail.chain_id = named.chain_id AND tail.chain_index > 0
    ORDER BY tail.chain_index DESC
    LIMIT 1
) END;

-- lock_jobs: lock the jobs that a verb is about, and read them.
-- params: jobs json, tails boolean, neighbours text, patient boolean
-- returns: asked text, id text, chain_id text, is_tail boolean, status text, queue text, attempt smallint,
--   waiting_for smallint, lease_generation bigint, type_name text, tenant text, was_found boolean (id is null for what
--   could not be locked: gone meanwhile, or, without patience, locked by somebody else)
-- concurrency: with tails, the id of any job names its chain, and the chain's last job is locked; a row that is not the
--   tail any more when its lock is granted shows that the chain went on meanwhile: ask again.
--   What the verb or the settling after it will touch as well is locked in the same sweep, so that all locks are taken by
--   id: neighbours are 'dependants' (who waits for these chains, and who is cancelled by that, and so on), 'blockers' (first
--   jobs of the chains these wait for, and jobs that still wait for others after they were told that these ended) or 'none'.
--   Without patience, whoever has told somebody that is locked counts as locked himself: his retry would wait for that one.
-- locks: job rows by id; waited for with patience, left alone without.
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT CAST(id AS /*id*/uuid) AS id FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
),
target AS MATERIALIZED (
    SELECT asked.id AS asked_id, named.chain_id,
           CASE WHEN named.is_tail OR NOT CAST(:tails AS boolean) THEN named.id ELSE tail.id END AS id
    FROM asked
    JOIN /*schema.*/job AS named ON named.id = asked.id
    LEFT JOIN LATERAL (
        SELECT job.id FROM /*schema.*/job AS job
        WHERE job.chain_id = named.chain_id AND job.chain_index > 0 AND NOT named.is_tail
        ORDER BY job.chain_index DESC
        LIMIT 1
    ) AS tail ON true
),
touched (id, chain_id, is_ending) AS (
    SELECT id, chain_id, true FROM target
    UNION
    SELECT job.id, job.chain_id, job.status = 'blocked' AND job.on_blocker_failure IS NOT DISTINCT FROM 'cancel'
    FROM touched
    JOIN /*schema.*/job_blocker AS job_blocker
        ON job_blocker.blocked_by_chain_id = touched.chain_id AND NOT job_blocker.is_resolved
    JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id
    WHERE touched.is_ending AND CAST(:neighbours AS text) = 'dependants'
),
told AS MATERIALIZED (
    SELECT target.asked_id, job.id
    FROM target
    JOIN /*schema.*/job_blocker AS job_blocker
        ON job_blocker.blocked_by_chain_id = target.chain_id AND job_blocker.is_resolved
    JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id AND job.waiting_for > 0
    WHERE CAST(:neighbours AS text) = 'blockers'
),
wanted AS MATERIALIZED (
    SELECT id FROM touched
    UNION
    SELECT job_blocker.blocked_by_chain_id
    FROM target JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = target.id
    WHERE NOT job_blocker.is_resolved AND CAST(:neighbours AS text) = 'blockers'
    UNION
    SELECT id FROM told
),
waited_for AS MATERIALIZED (
    SELECT id, chain_id, is_tail, status, queue, attempt, waiting_for, lease_generation, type_name, tenant
    FROM /*schema.*/job AS job
    WHERE id = ANY (ARRAY(SELECT id FROM wanted)) AND CAST(:patient AS boolean)
    ORDER BY id
    FOR NO KEY UPDATE
),
at_hand AS MATERIALIZED (
    SELECT id, chain_id, is_tail, status, queue, attempt, waiting_for, lease_generation, type_name, tenant
    FROM /*schema.*/job AS job
    WHERE id = ANY (ARRAY(SELECT id FROM wanted)) AND NOT CAST(:patient AS boolean)
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
),
locked AS MATERIALIZED (SELECT * FROM waited_for UNION ALL SELECT * FROM at_hand)
SELECT asked.id::text AS asked, locked.id::text AS id, locked.chain_id::text AS chain_id, locked.is_tail, locked.status,
       locked.queue, locked.attempt, locked.waiting_for, locked.lease_generation, locked.type_name, locked.tenant,
       target.id IS NOT NULL AS was_found
FROM asked
LEFT JOIN target ON target.asked_id = asked.id
LEFT JOIN locked ON locked.id = target.id
    AND (CAST(:patient AS boolean)
         OR target.asked_id NOT IN (SELECT asked_id FROM told WHERE id NOT IN (SELECT id FROM locked)))
WHERE (SELECT count(*) FROM locked) >= 0;

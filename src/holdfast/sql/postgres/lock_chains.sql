-- lock_chains: lock every job of chains that are to be deleted, and read them.
-- params: chains json, patient boolean
-- returns: asked text, chain_id text, id text, chain_index integer, is_tail boolean, status text, attempt smallint,
--   lease_generation bigint, finished_at text, sees_commits boolean (one row per job; id is null for one that could not be
--   locked: gone meanwhile, or, without patience, locked by somebody else)
-- concurrency: the id of any job names its chain; chains that do not exist have no row. A chain of which no locked row is
--   the tail went on while its lock was waited for: ask again. From then on it cannot: going on takes the tail's lock.
--   At stricter levels later statements would not see who came to wait for a chain before it was locked,
--   so nothing is locked there.
-- locks: job rows by id; waited for with patience, left alone without.
WITH named AS MATERIALIZED (
    SELECT job.id AS asked, job.chain_id
    FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS sent (id)
    JOIN /*schema.*/job AS job ON job.id = CAST(sent.id AS /*id*/uuid)
),
member AS MATERIALIZED (
    SELECT DISTINCT chain_id, chain_id AS id FROM named
    UNION ALL
    SELECT chain_id, id FROM /*schema.*/job AS job
    WHERE chain_id = ANY (ARRAY(SELECT chain_id FROM named)) AND chain_index > 0
),
waited_for AS MATERIALIZED (
    SELECT id, chain_index, is_tail, status, attempt, lease_generation, finished_at
    FROM /*schema.*/job AS job
    WHERE id = ANY (ARRAY(SELECT id FROM member)) AND CAST(:patient AS boolean)
      AND current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
    ORDER BY id
    FOR UPDATE
),
at_hand AS MATERIALIZED (
    SELECT id, chain_index, is_tail, status, attempt, lease_generation, finished_at
    FROM /*schema.*/job AS job
    WHERE id = ANY (ARRAY(SELECT id FROM member)) AND NOT CAST(:patient AS boolean)
      AND current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
    ORDER BY id
    FOR UPDATE SKIP LOCKED
),
locked AS MATERIALIZED (SELECT * FROM waited_for UNION ALL SELECT * FROM at_hand)
SELECT named.asked::text AS asked, member.chain_id::text AS chain_id, locked.id::text AS id, locked.chain_index,
       locked.is_tail, locked.status, locked.attempt, locked.lease_generation,
       to_char(locked.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS finished_at,
       current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') AS sees_commits
FROM named
JOIN member ON member.chain_id = named.chain_id
LEFT JOIN locked ON locked.id = member.id
WHERE (SELECT count(*) FROM locked) >= 0;

-- hold_chains: the state of chains that somebody is going to wait for, and a hold on it.
-- params: chains json
-- returns: chain_id text, status text (of those that exist)
-- concurrency: a lock on each chain's last job. Whoever ends it meanwhile is waited for, and its new state read; whoever
--   would end it later waits for us, and then sees who waits. Who looks with an older snapshot would not, so the first to
--   come marks the job (see seen_chains); the others share the lock. A completed job begins no more and needs no mark.
--   A chain that goes on with its next job at this moment, or is marked or completed, drops out of the answer: ask again.
--   Who shares a job passes whoever waits to change it, so he takes a turn at it first, behind those (see take_turn).
-- locks: turns; last jobs by id; shared with whom else waits where there is a mark; waited for.
WITH asked AS MATERIALIZED (
    SELECT CAST(id AS /*id*/uuid) AS id FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS chain (id)
),
tail AS MATERIALIZED (
    SELECT id, is_awaited FROM /*schema.*/job AS job
    WHERE id = ANY (ARRAY(SELECT id FROM asked)) AND chain_index = 0 AND is_tail
    UNION ALL
    SELECT id, is_awaited FROM /*schema.*/job AS job
    WHERE chain_id = ANY (ARRAY(SELECT id FROM asked)) AND chain_index > 0 AND is_tail
    ORDER BY id
),
turn AS MATERIALIZED (
    SELECT count(pg_advisory_xact_lock_shared(1213156420, turn)) AS taken
    FROM (SELECT DISTINCT hashtext(id::text) & 255 AS turn FROM tail WHERE is_awaited ORDER BY turn) AS turns
),
held AS MATERIALIZED (
    SELECT found.id, found.chain_id, found.status, found.is_new
    FROM turn CROSS JOIN tail CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT job.id, job.chain_id, job.status, true AS is_new FROM /*schema.*/job AS job
            WHERE job.id = tail.id AND job.is_tail AND turn.taken >= 0
              AND NOT job.is_awaited AND CASE WHEN job.status <> 'completed' THEN true END
            FOR NO KEY UPDATE
        ) AS unmarked
        UNION ALL
        SELECT * FROM (
            SELECT job.id, job.chain_id, job.status, false FROM /*schema.*/job AS job
            WHERE job.id = tail.id AND job.is_tail AND turn.taken >= 0
              AND (job.is_awaited OR CASE WHEN job.status = 'completed' THEN true END)
            FOR SHARE
        ) AS marked
    ) AS found
),
marked AS (
    UPDATE /*schema.*/job AS job SET is_awaited = true
    WHERE id = ANY (ARRAY(SELECT id FROM held WHERE is_new))
)
SELECT chain_id::text, status FROM held;

-- hold_chains: the state of chains that somebody is going to wait for, and a hold on it.
-- params: chains json
-- returns: chain_id text, status text (of those that exist)
-- concurrency: a shared lock on each chain's last job. Whoever ends it meanwhile is waited for, and its new state read;
--   whoever would end it later waits for us, and then sees who waits. A chain that goes on with its next job at this
--   moment drops out of the answer: ask again.
-- locks: last jobs by id, shared; waited for.
WITH asked AS MATERIALIZED (
    SELECT CAST(id AS /*id*/uuid) AS id FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS chain (id)
),
first AS MATERIALIZED (
    SELECT chain_id, status FROM /*schema.*/job AS job
    WHERE id = ANY (ARRAY(SELECT id FROM asked)) AND chain_index = 0 AND is_tail
    ORDER BY id
    FOR SHARE
),
later AS MATERIALIZED (
    SELECT chain_id, status FROM /*schema.*/job AS job
    WHERE chain_id = ANY (ARRAY(SELECT id FROM asked)) AND chain_index > 0 AND is_tail
    ORDER BY id
    FOR SHARE
)
SELECT chain_id::text, status FROM first
UNION ALL
SELECT chain_id::text, status FROM later;

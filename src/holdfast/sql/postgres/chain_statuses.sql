-- chain_statuses: the state of chains, which is that of their last jobs.
-- params: chains json
-- returns: chain_id text, status text (of those that exist)
-- concurrency: read only.
-- locks: none.
WITH asked AS MATERIALIZED (
    SELECT CAST(id AS /*id*/uuid) AS id FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS chain (id)
)
SELECT chain_id::text, status FROM /*schema.*/job AS job
WHERE id = ANY (ARRAY(SELECT id FROM asked)) AND chain_index = 0 AND is_tail
UNION ALL
SELECT chain_id::text, status FROM /*schema.*/job AS job
WHERE chain_id = ANY (ARRAY(SELECT id FROM asked)) AND chain_index > 0 AND is_tail;

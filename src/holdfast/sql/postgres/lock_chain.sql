-- lock_chain: one chain with its last job locked until the transaction ends.
-- params: id text
-- returns: chain json, tail json
-- concurrency: waits for whoever has the last job locked. If that one continued the chain, the job is no longer the last
--   and nothing is returned: look again, with a new snapshot.
-- locks: the last job, against changes and deletion, so nobody ends, continues or deletes the chain.
SELECT json_build_object('id', first.id, 'type_name', first.type_name, 'created_at', first.created_at)::text AS chain,
       /*document*/job.id AS tail
FROM /*schema.*/job AS job
JOIN /*schema.*/job AS first ON first.id = job.chain_id
WHERE job.is_tail AND job.id IN (
    SELECT later.id FROM /*schema.*/job AS later
    WHERE later.id = CAST(:id AS /*id*/uuid) AND later.chain_index = 0 AND later.is_tail
    UNION ALL
    SELECT later.id FROM /*schema.*/job AS later
    WHERE later.chain_id = CAST(:id AS /*id*/uuid) AND later.chain_index > 0 AND later.is_tail
)
FOR NO KEY UPDATE OF job;

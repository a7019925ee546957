-- get_archived_chain: one chain from the archive: what it was enqueued as, and its last job.
-- params: id text
-- returns: chain json, tail json
-- concurrency: read only; what is archived does not change.
-- locks: none.
SELECT json_object('id', first.id, 'type_name', first.type_name, 'created_at', first.created_at) AS chain,
       /*document*/job.id AS tail
FROM /*schema.*/job_archive AS first
JOIN /*schema.*/job_archive AS job ON job.id = iif(first.is_tail, first.id, (
    SELECT later.id FROM /*schema.*/job_archive AS later
    WHERE later.chain_id = first.id AND later.chain_index > 0
    ORDER BY later.chain_index DESC LIMIT 1
))
WHERE first.id = :id AND first.chain_index = 0;

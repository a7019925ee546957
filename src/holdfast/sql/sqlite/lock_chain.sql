-- lock_chain: one chain with its last job locked until the transaction ends.
-- params: id text
-- returns: chain json, tail json
-- concurrency: the file has one writer. Whoever runs this is it: a borrowed transaction takes the write lock first.
-- locks: none beyond that.
SELECT json_object('id', first.id, 'type_name', first.type_name, 'created_at', first.created_at) AS chain,
       /*document*/job.id AS tail
FROM /*schema.*/job AS first
JOIN /*schema.*/job AS job ON job.seq = iif(first.is_tail, first.seq, (
    SELECT later.seq FROM /*schema.*/job AS later
    WHERE later.chain_id = first.id AND later.chain_index > 0
    ORDER BY later.chain_index DESC LIMIT 1
))
WHERE first.id = :id AND first.chain_index = 0;

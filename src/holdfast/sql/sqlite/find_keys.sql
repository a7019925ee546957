-- find_keys: the deduplication keys that chains were enqueued with and have not given up.
-- params: jobs json
-- returns: chain_id text, type_name text, key text, scope text
-- concurrency: read only. A key belongs to the chain, so it is read from the chain's first job.
-- locks: none.
SELECT DISTINCT holder.id AS chain_id, holder.type_name AS type_name, holder.deduplication_key AS key,
       holder.deduplication_scope AS scope
FROM json_each(:jobs) AS sent
CROSS JOIN /*schema.*/job AS job ON job.id = sent.value
CROSS JOIN /*schema.*/job AS holder ON holder.id = job.chain_id
WHERE holder.deduplication_key IS NOT NULL;

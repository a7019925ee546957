-- return_keys: give back keys that this transaction took for jobs that it will not write after all.
-- params: keys json
-- returns: none
-- concurrency: inside the write transaction that took them.
-- locks: the database's write lock.
DELETE FROM /*schema.*/deduplication
WHERE (type_name, key, chain_id) IN (
    SELECT json_extract(value, '$.type_name'), json_extract(value, '$.key'), json_extract(value, '$.chain_id')
    FROM json_each(:keys)
);

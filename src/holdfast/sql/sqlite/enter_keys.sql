-- enter_keys: take deduplication keys that nobody took before.
-- params: now timestamptz, keys json
-- returns: type_name text, key text (those that were entered)
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
INSERT OR IGNORE INTO /*schema.*/deduplication (type_name, key, chain_id, scope, taken_at)
SELECT json_extract(value, '$.type_name'), json_extract(value, '$.key'), json_extract(value, '$.chain_id'),
       json_extract(value, '$.scope'), :now
FROM json_each(:keys)
WHERE true
RETURNING type_name, key;

-- enter_keys: take deduplication keys that nobody took before.
-- params: now timestamptz, keys json
-- returns: type_name text, key text (those that were entered)
-- concurrency: a key that somebody enters at the same moment is waited for, and left to him.
-- locks: the inserted rows, by type and key.
INSERT INTO /*schema.*/deduplication (type_name, key, chain_id, scope, taken_at)
SELECT type_name, key, chain_id, scope, /*moment*/statement_timestamp()
FROM json_to_recordset(CAST(CAST(:keys AS text) AS json)) AS sent (
    type_name text, key text, chain_id /*id*/uuid, scope text
)
ORDER BY type_name, key
ON CONFLICT (type_name, key) DO NOTHING
RETURNING type_name, key;

-- lock_keys: lock the rows of deduplication keys.
-- params: keys json, patient boolean
-- returns: type_name text, key text (those that are locked now; keys that nobody took yet have no row)
-- concurrency: inside a write transaction nobody else takes or gives up a key. patient is PostgreSQL's.
-- locks: the database's write lock.
SELECT deduplication.type_name AS type_name, deduplication.key AS key
FROM json_each(:keys) AS sent
CROSS JOIN /*schema.*/deduplication AS deduplication
    ON deduplication.type_name = json_extract(sent.value, '$.type_name')
   AND deduplication.key = json_extract(sent.value, '$.key');

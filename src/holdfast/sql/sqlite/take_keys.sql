-- take_keys: take deduplication keys, or learn who has them.
-- params: now timestamptz, keys json
-- returns: place integer, chain_id text, outcome text ('taken' = now ours; 'judge' = somebody took it before: ask
--   judge_keys)
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
-- part: taken
INSERT OR IGNORE INTO /*schema.*/deduplication (type_name, key, chain_id, scope, taken_at)
SELECT json_extract(value, '$.type_name'), json_extract(value, '$.key'), json_extract(value, '$.chain_id'),
       json_extract(value, '$.scope'), :now
FROM json_each(:keys);
-- part: outcomes
SELECT json_extract(value, '$.place') AS place, deduplication.chain_id,
       iif(deduplication.chain_id = json_extract(value, '$.chain_id'), 'taken', 'judge') AS outcome
FROM json_each(:keys)
CROSS JOIN /*schema.*/deduplication AS deduplication
    ON deduplication.type_name = json_extract(value, '$.type_name') AND deduplication.key = json_extract(value, '$.key');

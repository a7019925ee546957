-- point_keys: let keys point to their new holders.
-- params: now timestamptz, keys json
-- returns: none
-- concurrency: inside the write transaction that judged them.
-- locks: the database's write lock.
UPDATE /*schema.*/deduplication AS deduplication
SET chain_id = json_extract(sent.value, '$.chain_id'), scope = json_extract(sent.value, '$.scope'), taken_at = :now
FROM json_each(:keys) AS sent
WHERE deduplication.type_name = json_extract(sent.value, '$.type_name')
  AND deduplication.key = json_extract(sent.value, '$.key');

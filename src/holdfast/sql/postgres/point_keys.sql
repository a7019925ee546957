-- point_keys: let keys that are locked point to their new holders.
-- params: now timestamptz, keys json
-- returns: none
-- concurrency: the rows are locked by take_keys.
-- locks: none that the transaction does not have.
UPDATE /*schema.*/deduplication AS deduplication
SET chain_id = sent.chain_id, scope = sent.scope, taken_at = /*moment*/statement_timestamp()
FROM json_to_recordset(CAST(CAST(:keys AS text) AS json))
     AS sent (type_name text, key text, chain_id /*id*/uuid, scope text)
WHERE deduplication.type_name = sent.type_name AND deduplication.key = sent.key;

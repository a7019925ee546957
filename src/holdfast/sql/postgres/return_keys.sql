-- return_keys: give back keys that this transaction took for jobs that it will not write after all.
-- params: keys json
-- returns: none
-- concurrency: the rows were inserted by this transaction, and nobody else has seen them.
-- locks: none that the transaction does not have.
DELETE FROM /*schema.*/deduplication AS deduplication
USING json_to_recordset(CAST(CAST(:keys AS text) AS json)) AS sent (type_name text, key text, chain_id /*id*/uuid)
WHERE deduplication.type_name = sent.type_name AND deduplication.key = sent.key
  AND deduplication.chain_id = sent.chain_id;

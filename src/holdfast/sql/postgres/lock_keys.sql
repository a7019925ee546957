-- lock_keys: lock the rows of deduplication keys.
-- params: keys json, patient boolean
-- returns: type_name text, key text (those that are locked now; keys that nobody took yet have no row)
-- concurrency: whoever takes or gives up a key has its row locked, so until the end of the transaction nobody else does
--   either. What it has waited for only a later statement can see: judge_keys.
-- locks: deduplication rows by type and key; waited for with patience, left alone without.
WITH sent AS MATERIALIZED (
    SELECT type_name, key FROM json_to_recordset(CAST(CAST(:keys AS text) AS json)) AS sent (type_name text, key text)
),
waited_for AS MATERIALIZED (
    SELECT type_name, key FROM /*schema.*/deduplication AS deduplication
    WHERE (type_name, key) IN (SELECT type_name, key FROM sent) AND CAST(:patient AS boolean)
    ORDER BY type_name, key
    FOR UPDATE
),
at_hand AS MATERIALIZED (
    SELECT type_name, key FROM /*schema.*/deduplication AS deduplication
    WHERE (type_name, key) IN (SELECT type_name, key FROM sent) AND NOT CAST(:patient AS boolean)
    ORDER BY type_name, key
    FOR UPDATE SKIP LOCKED
)
SELECT type_name, key FROM waited_for UNION ALL SELECT type_name, key FROM at_hand;

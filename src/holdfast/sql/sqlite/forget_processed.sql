-- forget_processed: drop up to /*limit*/500 keys of handlers that are older than they are kept.
-- params: now timestamptz, keep_ms bigint
-- returns: forgotten bigint
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
-- part: old
SELECT json_group_array(json_object('type_name', type_name, 'key', key)) AS old
FROM (
    SELECT type_name, key FROM /*schema.*/processed AS processed INDEXED BY /*name*/processed_age_idx
    WHERE processed_at < strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :keep_ms / 1000.0)) || '000Z'
    ORDER BY processed_at
    LIMIT /*limit*/500
);
-- part: dropped
DELETE FROM /*schema.*/processed AS processed
WHERE (type_name, key) IN (
    SELECT json_extract(value, '$.type_name'), json_extract(value, '$.key') FROM json_each(:old)
);
-- part: forgotten
SELECT json_array_length(:old) AS forgotten;

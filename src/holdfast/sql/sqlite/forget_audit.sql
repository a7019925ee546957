-- forget_audit: drop up to /*limit*/500 entries of the record that are older than it is kept.
-- params: now timestamptz, keep_ms bigint
-- returns: forgotten bigint
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
-- part: old
SELECT json_group_array(seq) AS old
FROM (SELECT seq, at FROM /*schema.*/audit AS audit ORDER BY seq LIMIT /*limit*/500) AS first
WHERE at < strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :keep_ms / 1000.0)) || '000Z';
-- part: dropped
DELETE FROM /*schema.*/audit AS audit WHERE seq IN (SELECT value FROM json_each(:old));
-- part: forgotten
SELECT json_array_length(:old) AS forgotten;

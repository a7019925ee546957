-- add_blockers: write down what new jobs wait for.
-- params: rows json
-- returns: none
-- concurrency: inside the write transaction that wrote the jobs; writing again changes nothing.
-- locks: the database's write lock.
INSERT OR IGNORE INTO /*schema.*/job_blocker (job_id, blocked_by_chain_id, "index", is_resolved)
SELECT json_extract(value, '$.job_id'), json_extract(value, '$.chain_id'), json_extract(value, '$.index'),
       json_extract(value, '$.is_resolved')
FROM json_each(:rows);

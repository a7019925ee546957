-- record_audit: write down what people did to jobs.
-- params: now timestamptz, actor text, verb text, entries json
-- returns: none
-- concurrency: a plain insert, in the transaction of what it records.
-- locks: the database's write lock.
INSERT INTO /*schema.*/audit (at, actor, verb, chain_id, job_id, outcome, detail)
SELECT :now, :actor, :verb, json_extract(value, '$.chain_id'), json_extract(value, '$.job_id'),
       json_extract(value, '$.outcome'), json_extract(value, '$.detail')
FROM json_each(:entries);

-- record_audit: write down what people did to jobs.
-- params: now timestamptz, actor text, verb text, entries json
-- returns: none
-- concurrency: a plain insert, in the transaction of what it records.
-- locks: the inserted rows only.
INSERT INTO /*schema.*/audit (at, actor, verb, chain_id, job_id, outcome, detail)
SELECT /*moment*/statement_timestamp(), CAST(:actor AS text), CAST(:verb AS text),
       chain_id, job_id, outcome, detail
FROM json_to_recordset(CAST(CAST(:entries AS text) AS json)) AS entry (
    chain_id /*id*/uuid, job_id /*id*/uuid, outcome text, detail json
);

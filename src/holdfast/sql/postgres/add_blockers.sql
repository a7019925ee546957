-- add_blockers: write down what new jobs wait for.
-- params: rows json
-- returns: none
-- concurrency: plain inserts beside the jobs that were written by the same transaction; writing again changes nothing.
-- locks: the inserted rows only.
INSERT INTO /*schema.*/job_blocker (job_id, blocked_by_chain_id, index, is_resolved)
SELECT job_id, chain_id, index, is_resolved
FROM json_to_recordset(CAST(CAST(:rows AS text) AS json))
     AS sent (job_id /*id*/uuid, chain_id /*id*/uuid, index smallint, is_resolved boolean)
ON CONFLICT DO NOTHING;

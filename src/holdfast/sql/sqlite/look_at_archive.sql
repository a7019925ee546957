-- look_at_archive: how chains ended that are in the archive, for those who come late.
-- params: chains json
-- returns: chain_id text, status text, job_id text, type_name text, chain_type_name text, output json, error json
--   (of those that are there)
-- concurrency: read only; what is archived does not change.
-- locks: none.
SELECT job.chain_id AS chain_id, job.status, job.id AS job_id, job.type_name, job.chain_type_name, job.output,
       job.last_attempt_error AS error
FROM json_each(:chains) AS sent CROSS JOIN /*schema.*/job_archive AS job ON job.id = sent.value
WHERE job.is_tail = 1 AND job.chain_index = 0
UNION ALL
SELECT job.chain_id, job.status, job.id, job.type_name, job.chain_type_name, job.output, job.last_attempt_error
FROM json_each(:chains) AS sent CROSS JOIN /*schema.*/job_archive AS job ON job.chain_id = sent.value
WHERE job.is_tail = 1 AND job.chain_index > 0;

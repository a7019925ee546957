-- look_at_archive: how chains ended that are in the archive, for those who come late.
-- params: chains json
-- returns: chain_id text, status text, job_id text, type_name text, chain_type_name text, output json, error json
--   (of those that are there)
-- concurrency: read only; what is archived does not change.
-- locks: none.
SELECT job.chain_id::text AS chain_id, job.status, job.id::text AS job_id, job.type_name, job.chain_type_name,
       job.output::text AS output, job.last_attempt_error::text AS error
FROM /*schema.*/job_archive AS job
WHERE job.is_tail AND job.chain_index = 0 AND job.id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS sent (id)
))
UNION ALL
SELECT job.chain_id::text, job.status, job.id::text, job.type_name, job.chain_type_name, job.output::text,
       job.last_attempt_error::text
FROM /*schema.*/job_archive AS job
WHERE job.is_tail AND job.chain_index > 0 AND job.chain_id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS sent (id)
));

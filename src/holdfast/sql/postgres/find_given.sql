-- find_given: the jobs that exist already under ids that a caller gave.
-- params: jobs json
-- returns: id text, type_name text, chain_index integer, status text
-- concurrency: read only. Whoever writes one of them meanwhile is found by the insert.
-- locks: none.
SELECT job.id::text AS id, job.type_name, job.chain_index, job.status
FROM /*schema.*/job AS job
WHERE job.id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
));

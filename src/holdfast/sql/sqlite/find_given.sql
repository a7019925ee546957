-- find_given: the jobs that exist already under ids that a caller gave.
-- params: jobs json
-- returns: id text, type_name text, chain_index integer, status text
-- concurrency: read only. Whoever writes one of them meanwhile is found by the insert.
-- locks: none.
SELECT job.id AS id, job.type_name AS type_name, job.chain_index AS chain_index, job.status AS status
FROM json_each(:jobs) AS sent CROSS JOIN /*schema.*/job AS job ON job.id = sent.value;

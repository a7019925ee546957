-- look_at_chains: how chains stand, for those who wait for them.
-- params: chains json
-- returns: chain_id text, status text (null: there is no such chain), job_id text, type_name text, chain_type_name text,
--   output json, error json (of finished chains only, as are job_id and the types)
-- concurrency: read only; one snapshot for all, so a chain is never seen between two of its jobs.
-- locks: none.
SELECT asked.value AS chain_id,
       job.status,
       iif(job.finished_at IS NULL, NULL, job.id) AS job_id,
       iif(job.finished_at IS NULL, NULL, job.type_name) AS type_name,
       iif(job.finished_at IS NULL, NULL, job.chain_type_name) AS chain_type_name,
       iif(job.finished_at IS NULL, NULL, job.output) AS output,
       iif(job.finished_at IS NULL, NULL, job.last_attempt_error) AS error
FROM json_each(:chains) AS asked
LEFT JOIN /*schema.*/job AS first ON first.id = asked.value AND first.chain_index = 0
LEFT JOIN /*schema.*/job AS job ON job.id = iif(first.is_tail, first.id, (
    SELECT later.id FROM /*schema.*/job AS later
    WHERE later.chain_id = first.id AND later.chain_index > 0
    ORDER BY later.chain_index DESC LIMIT 1
));

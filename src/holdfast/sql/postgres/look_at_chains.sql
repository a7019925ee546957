-- look_at_chains: how chains stand, for those who wait for them.
-- params: chains json
-- returns: chain_id text, status text (null: there is no such chain), job_id text, type_name text, chain_type_name text,
--   output json, error json (of finished chains only, as are job_id and the types)
-- concurrency: read only; one snapshot for all, so a chain is never seen between two of its jobs.
-- locks: none.
SELECT asked.chain_id,
       tail.status,
       CASE WHEN is_over THEN tail.id::text END AS job_id,
       CASE WHEN is_over THEN tail.type_name END AS type_name,
       CASE WHEN is_over THEN tail.chain_type_name END AS chain_type_name,
       CASE WHEN is_over THEN tail.output::text END AS output,
       CASE WHEN is_over THEN tail.last_attempt_error::text END AS error
FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS asked (chain_id)
LEFT JOIN LATERAL (
    SELECT job.*, job.status IN ('completed', 'dead_letter', 'cancelled') AS is_over
    FROM /*schema.*/job AS first,
         LATERAL (
             SELECT first.id AS id WHERE first.is_tail
             UNION ALL
             (SELECT later.id FROM /*schema.*/job AS later
              WHERE NOT first.is_tail AND later.chain_id = first.id AND later.chain_index > 0
              ORDER BY later.chain_index DESC LIMIT 1)
         ) AS last,
         LATERAL (SELECT * FROM /*schema.*/job AS job WHERE job.id = last.id) AS job
    WHERE first.id = CAST(asked.chain_id AS /*id*/uuid) AND first.chain_index = 0
) AS tail ON true;

-- list_steps: the saved steps of a job, in the order of their saving.
-- params: id text
-- returns: step json
-- concurrency: read only.
-- locks: none.
SELECT json_object('name', name, 'result', json(result), 'lease_generation', lease_generation, 'saved_at', saved_at,
                   'kind', kind, 'signal', signal, 'ends_at', ends_at, 'is_open', json(iif(result IS NULL, 'true', 'false')))
       AS step
FROM /*schema.*/job_step AS job_step WHERE job_id = :id
ORDER BY saved_at, name;

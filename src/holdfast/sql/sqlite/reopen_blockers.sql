-- reopen_blockers: chains that had ended begin anew, so jobs that were told of their end, and still wait, wait for them again.
-- params: chains json
-- returns: none
-- concurrency: inside the write transaction that retries them. A job that was released waits for nothing and is left alone;
--   one that has run already waits for children or a signal, and looks at its children again by itself.
-- locks: the database's write lock.
-- part: counted
SELECT json_group_array(json_object('job_id', job_id, 'times', times)) AS counted
FROM (
    SELECT job_blocker.job_id, count(*) AS times
    FROM json_each(:chains)
    CROSS JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.blocked_by_chain_id = value
    CROSS JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id
    WHERE job_blocker.is_resolved AND job.waiting_for > 0 AND job.lease_generation = 0
    GROUP BY job_blocker.job_id
);
-- part: reopened
UPDATE /*schema.*/job_blocker AS job_blocker SET is_resolved = 0
WHERE is_resolved AND blocked_by_chain_id IN (SELECT value FROM json_each(:chains))
  AND job_id IN (SELECT json_extract(value, '$.job_id') FROM json_each(:counted));
-- part: waiting
UPDATE /*schema.*/job AS job SET waiting_for = waiting_for + times
FROM (
    SELECT json_extract(value, '$.job_id') AS job_id, json_extract(value, '$.times') AS times FROM json_each(:counted)
) AS counted
WHERE job.id = counted.job_id;

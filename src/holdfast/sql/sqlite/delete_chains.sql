-- delete_chains: delete jobs with all that belongs to them.
-- params: chains json, jobs json
-- returns: queue text (those in which the next job of a key may be claimed by this)
-- concurrency: inside the write transaction that read them. A holder of a running one finds nothing when he next writes.
--   Keys taken for ever outlive their chains.
-- locks: the database's write lock.
-- part: steps
DELETE FROM /*schema.*/job_step AS job_step WHERE job_id IN (SELECT value FROM json_each(:jobs));
-- part: signals
DELETE FROM /*schema.*/job_signal AS job_signal WHERE chain_id IN (SELECT value FROM json_each(:chains));
-- part: logs
DELETE FROM /*schema.*/job_log AS job_log WHERE job_id IN (SELECT value FROM json_each(:jobs));
-- part: attempts
DELETE FROM /*schema.*/job_attempt AS job_attempt WHERE job_id IN (SELECT value FROM json_each(:jobs));
-- part: blockers
DELETE FROM /*schema.*/job_blocker AS job_blocker WHERE job_id IN (SELECT value FROM json_each(:jobs));
-- part: keys
DELETE FROM /*schema.*/deduplication AS deduplication
WHERE chain_id IN (SELECT value FROM json_each(:chains)) AND scope <> 'forever';
-- part: freed
SELECT json_group_array(DISTINCT queue) AS freed FROM /*schema.*/job AS job
WHERE id IN (SELECT value FROM json_each(:jobs))
  AND (status IN ('blocked', 'pending', 'running') AND partition_key IS NOT NULL AND (held = 0 OR limited = 1)
       OR status = 'running' AND concurrency_key IS NOT NULL);
-- part: deleted
DELETE FROM /*schema.*/job AS job WHERE id IN (SELECT value FROM json_each(:jobs));
-- part: woken
SELECT value AS queue FROM json_each(:freed);

-- delete_chains: delete jobs with all that belongs to them.
-- params: chains json, jobs json
-- returns: queue text (those in which the next job of a key may be claimed by this)
-- concurrency: every job is locked before (lock_chains). A holder of a running one finds nothing when he next writes.
--   A key's row that somebody has locked stays: it names a chain that is gone, so it holds nothing. Keys taken for ever
--   outlive their chains.
-- locks: job rows that are locked already; deduplication rows, never waited for.
-- part: steps
DELETE FROM /*schema.*/job_step AS job_step WHERE job_id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
));
-- part: signals
DELETE FROM /*schema.*/job_signal AS job_signal WHERE chain_id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS sent (id)
));
-- part: logs
DELETE FROM /*schema.*/job_log AS job_log WHERE job_id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
));
-- part: attempts
DELETE FROM /*schema.*/job_attempt AS job_attempt WHERE job_id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
));
-- part: blockers
DELETE FROM /*schema.*/job_blocker AS job_blocker WHERE job_id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
));
-- part: keys
DELETE FROM /*schema.*/deduplication AS deduplication WHERE ctid = ANY (ARRAY(
    SELECT taken.ctid FROM /*schema.*/deduplication AS taken
    WHERE taken.scope <> 'forever' AND taken.chain_id = ANY (ARRAY(
        SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS sent (id)
    ))
    FOR UPDATE SKIP LOCKED
));
-- part: deleted
WITH gone AS (
    DELETE FROM /*schema.*/job AS job WHERE id = ANY (ARRAY(
        SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
    ))
    RETURNING job.queue, job.status, job.partition_key, job.held AND NOT job.limited AS has_others_in_front, job.concurrency_key
)
SELECT DISTINCT gone.queue FROM gone
WHERE gone.status IN ('blocked', 'pending', 'running') AND gone.partition_key IS NOT NULL AND NOT gone.has_others_in_front
   OR gone.status = 'running' AND gone.concurrency_key IS NOT NULL;

-- archive_chains: write jobs that are about to be deleted into the archive, as they are.
-- params: now timestamptz, jobs json
-- returns: none
-- concurrency: every job is locked before (lock_chains), and deleted by the same transaction (delete_chains).
-- locks: none but those of new rows.
INSERT INTO /*schema.*/job_archive
SELECT /*moment*/statement_timestamp(), job.*
FROM /*schema.*/job AS job
WHERE job.id = ANY (ARRAY(
    SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
));

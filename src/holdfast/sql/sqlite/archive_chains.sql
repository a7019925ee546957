-- archive_chains: write jobs that are about to be deleted into the archive, as they are.
-- params: now timestamptz, jobs json
-- returns: none
-- concurrency: inside the write transaction that deletes them (delete_chains).
-- locks: the database's write lock.
INSERT INTO /*schema.*/job_archive
SELECT :now, job.* FROM json_each(:jobs) AS sent CROSS JOIN /*schema.*/job AS job ON job.id = sent.value;

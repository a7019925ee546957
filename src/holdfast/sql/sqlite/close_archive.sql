-- close_archive: drop what lies in the archive for longer than keep_ms, and is needed by no job that has not completed.
-- params: now timestamptz, keep_ms bigint
-- returns: closed bigint (jobs)
-- concurrency: inside a write transaction; up to /*limit*/500 at a time.
-- locks: the database's write lock.
-- part: old
SELECT json_group_array(rowid) AS old
FROM (
    SELECT rowid FROM /*schema.*/job_archive AS job_archive INDEXED BY /*name*/job_archive_age_idx
    WHERE archived_at < strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :keep_ms / 1000.0)) || '000Z'
      AND NOT EXISTS (
          SELECT 1 FROM /*schema.*/job_blocker AS job_blocker
          CROSS JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id
          WHERE job_blocker.blocked_by_chain_id = job_archive.chain_id AND job.status <> 'completed'
      )
    ORDER BY archived_at
    LIMIT /*limit*/500
);
-- part: dropped
DELETE FROM /*schema.*/job_archive AS job_archive WHERE rowid IN (SELECT value FROM json_each(:old));
-- part: closed
SELECT json_array_length(:old) AS closed;

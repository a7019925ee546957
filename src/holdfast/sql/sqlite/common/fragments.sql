-- common/fragments: what many statements say in the same words, filled in wherever a file says /*name*/.
-- params: now timestamptz, taste json
-- part: taste
-- Whether a job is to the taste of a worker.
(:taste IS NULL
 OR (job.flags IS NULL OR NOT EXISTS (
         SELECT 1 FROM json_each(job.flags) AS flag
         WHERE flag.value IN (SELECT value FROM json_each(:taste, '$.forbidden'))
     ))
    AND (job.partition_bucket IS NULL
         OR ifnull((SELECT substr(value, job.partition_bucket + 1, 1) FROM json_each(:taste, '$.masks')
                    WHERE key = job.queue), '1') = '1'
         OR job.ready_at <= strftime('%Y-%m-%dT%H:%M:%f', :now, '-10 seconds') || '000Z'))
-- part: microseconds
-- The time as a number: SQLite's own dates have milliseconds only.
(strftime('%s', substr(:now, 1, 19)) * 1000000 + CAST(substr(:now, 21, 6) AS INTEGER))

-- common/fragments: what many statements say in the same words, filled in wherever a file says /*name*/.
-- params: now timestamptz, taste json
-- part: moment
-- What a statement takes for the time: the database's, unless a test has a clock.
coalesce(CAST(:now AS timestamptz), statement_timestamp())
-- part: taste
-- Whether a job is to the taste of a worker. Beside the job there are `forbidden` flags and the `mask` of its queue's buckets.
(CAST(:taste AS text) IS NULL
 OR (job.flags IS NULL OR NOT job.flags && forbidden)
    AND (mask IS NULL OR job.partition_bucket IS NULL OR substr(mask, job.partition_bucket + 1, 1) = '1'
         OR job.ready_at <= /*moment*/statement_timestamp() - interval '10 seconds'))

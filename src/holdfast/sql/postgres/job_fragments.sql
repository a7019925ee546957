-- job_fragments: what statements about jobs are composed of; the table is called job in all of them.
-- params: ids json, chain_ids json, status json, type_name text, chain_type_name text, queue text, tenant text,
--   partition_key text, since timestamptz, until timestamptz, seq bigint
-- returns: fragments
-- concurrency: read only.
-- locks: none.
-- part: document
-- A whole row.
to_json(job)::text
-- part: ids
-- From here on the fields of a JobFilter, by their names.
job.id = ANY (ARRAY(SELECT CAST(given.id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:ids AS text) AS json)) AS given (id)))
-- part: chain_ids
-- A first job is found by its id, because the index of chains does not hold first jobs.
job.id = ANY (ARRAY(SELECT CAST(given.id AS /*id*/uuid)
                    FROM json_array_elements_text(CAST(CAST(:chain_ids AS text) AS json)) AS given (id))) AND job.chain_index = 0
OR job.chain_id = ANY (ARRAY(SELECT CAST(given.id AS /*id*/uuid)
                             FROM json_array_elements_text(CAST(CAST(:chain_ids AS text) AS json)) AS given (id)))
   AND job.chain_index > 0
-- part: status
job.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:status AS text) AS json))))
-- part: tail_status
-- Of chains, where job is the first one.
tail.status = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:status AS text) AS json))))
-- part: type_name
job.type_name = CAST(:type_name AS text)
-- part: chain_type_name
job.chain_type_name = CAST(:chain_type_name AS text)
-- part: queue
job.queue = CAST(:queue AS text)
-- part: tenant
job.tenant = CAST(:tenant AS text)
-- part: partition_key
job.partition_key = CAST(:partition_key AS text)
-- part: since
job.created_at >= CAST(:since AS timestamptz)
-- part: until
job.created_at < CAST(:until AS timestamptz)
-- part: below
-- Where a page ends and the next one begins.
job.seq < CAST(:seq AS bigint)
-- part: above
job.seq > CAST(:seq AS bigint)
-- part: newest_first
seq DESC
-- part: oldest_first
seq ASC
-- part: newest_first_by_status
-- The same order among jobs of one state, and of one tenant, in words that only their own index fits.
status DESC, seq DESC
-- part: oldest_first_by_status
status ASC, seq ASC
-- part: newest_first_by_tenant
tenant DESC, seq DESC
-- part: oldest_first_by_tenant
tenant ASC, seq ASC
-- part: by_seq
-- Where a list looks: the names of its parts.
SELECT id, seq FROM by_seq
-- part: by_id
SELECT id, seq FROM by_id
-- part: by_tenant
SELECT id, seq FROM by_tenant
-- part: blocked
SELECT id, seq FROM blocked
-- part: dead_letter
SELECT id, seq FROM dead_letter
-- part: cancelled
SELECT id, seq FROM cancelled
-- part: running
SELECT id, seq FROM running
-- part: pending
SELECT id, seq FROM pending

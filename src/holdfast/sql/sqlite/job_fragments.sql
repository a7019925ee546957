-- job_fragments: what statements about jobs are composed of; the table is called job in all of them.
-- params: ids json, chain_ids json, status json, type_name text, chain_type_name text, queue text, tenant text,
--   partition_key text, since timestamptz, until timestamptz, seq bigint
-- returns: fragments
-- concurrency: read only.
-- locks: none.
-- Fields of a JobFilter, by their names.
-- part: ids
job.id IN (SELECT value FROM json_each(:ids))
-- part: chain_ids
-- A first job is found by its id, because the index of chains does not hold first jobs.
job.id IN (SELECT value FROM json_each(:chain_ids)) AND job.chain_index = 0
OR job.chain_id IN (SELECT value FROM json_each(:chain_ids)) AND job.chain_index > 0
-- part: status
job.status IN (SELECT value FROM json_each(:status))
-- part: type_name
job.type_name = :type_name
-- part: chain_type_name
job.chain_type_name = :chain_type_name
-- part: queue
job.queue = :queue
-- part: tenant
job.tenant = :tenant
-- part: partition_key
job.partition_key = :partition_key
-- part: since
job.created_at >= :since
-- part: until
job.created_at < :until
-- part: below
-- Where a page ends and the next one begins.
job.seq < :seq
-- part: above
job.seq > :seq
-- part: newest_first
job.seq DESC
-- part: oldest_first
job.seq ASC

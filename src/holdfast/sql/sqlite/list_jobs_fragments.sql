-- list_jobs_fragments: what list_jobs may be composed of.
-- params: status json, type_name text, queue text, tenant text, since timestamptz, until timestamptz, seq bigint
-- returns: fragments
-- concurrency: read only.
-- locks: none.
-- part: status
status IN (SELECT value FROM json_each(:status))
-- part: type_name
type_name = :type_name
-- part: queue
queue = :queue
-- part: tenant
tenant = :tenant
-- part: since
created_at >= :since
-- part: until
created_at < :until
-- part: below
seq < :seq
-- part: above
seq > :seq
-- part: newest_first
seq DESC
-- part: oldest_first
seq ASC

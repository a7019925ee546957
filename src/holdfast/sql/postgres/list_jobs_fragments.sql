-- list_jobs_fragments: what list_jobs may be composed of.
-- params: status json, type_name text, queue text, tenant text, since timestamptz, until timestamptz, seq bigint
-- returns: fragments
-- concurrency: read only.
-- locks: none.
-- part: status
status IN (SELECT json_array_elements_text(CAST(CAST(:status AS text) AS json)))
-- part: type_name
type_name = CAST(:type_name AS text)
-- part: queue
queue = CAST(:queue AS text)
-- part: tenant
tenant = CAST(:tenant AS text)
-- part: since
created_at >= CAST(:since AS timestamptz)
-- part: until
created_at < CAST(:until AS timestamptz)
-- part: below
seq < CAST(:seq AS bigint)
-- part: above
seq > CAST(:seq AS bigint)
-- part: newest_first
seq DESC
-- part: oldest_first
seq ASC

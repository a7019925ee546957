-- job_fragments: what statements about jobs are composed of; the table is called job in all of them.
-- params: ids json, chain_ids json, status json, type_name text, chain_type_name text, queue text, tenant text,
--   partition_key text, since timestamptz, until timestamptz, seq bigint
-- returns: fragments
-- concurrency: read only.
-- locks: none.
-- part: document
-- A whole row, without what nobody is shown.
json_object(
    'id', job.id, 'seq', job.seq, 'type_name', job.type_name, 'queue', job.queue, 'priority', job.priority,
    'chain_id', job.chain_id, 'chain_type_name', job.chain_type_name, 'chain_index', job.chain_index,
    'is_tail', json(iif(job.is_tail, 'true', 'false')), 'input', json(job.input), 'output', json(job.output),
    'status', job.status, 'held', json(iif(job.held, 'true', 'false')), 'waiting_for', job.waiting_for,
    'attempt', job.attempt, 'max_attempts', job.max_attempts, 'crash_count', job.crash_count,
    'created_at', job.created_at, 'scheduled_at', job.scheduled_at, 'ready_at', job.ready_at,
    'expires_at', job.expires_at, 'timeout_ms', job.timeout_ms, 'last_attempt_at', job.last_attempt_at,
    'finished_at', job.finished_at, 'completed_by', job.completed_by, 'duration_ms', job.duration_ms,
    'last_attempt_error', json(job.last_attempt_error), 'leased_by', job.leased_by, 'leased_until', job.leased_until,
    'lease_generation', job.lease_generation, 'cancel_requested_at', job.cancel_requested_at, 'step', job.step,
    'progress', json(job.progress), 'deduplication_key', job.deduplication_key,
    'deduplication_scope', job.deduplication_scope, 'revision', job.revision, 'flags', json(job.flags),
    'partition_key', job.partition_key, 'ordering', job.ordering, 'concurrency_key', job.concurrency_key,
    'on_blocker_failure', job.on_blocker_failure, 'tenant', job.tenant, 'headers', json(job.headers)
)
-- part: ids
-- From here on the fields of a JobFilter, by their names.
job.id IN (SELECT value FROM json_each(:ids))
-- part: chain_ids
-- A first job is found by its id, because the index of chains does not hold first jobs.
job.id IN (SELECT value FROM json_each(:chain_ids)) AND job.chain_index = 0
OR job.chain_id IN (SELECT value FROM json_each(:chain_ids)) AND job.chain_index > 0
-- part: status
job.status IN (SELECT value FROM json_each(:status))
-- part: tail_status
-- Of chains, where job is the first one.
tail.status IN (SELECT value FROM json_each(:status))
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
seq DESC
-- part: oldest_first
seq ASC
-- part: newest_first_by_status
-- The same order; PostgreSQL wants it in other words among jobs of one state, and of one tenant.
seq DESC
-- part: oldest_first_by_status
seq ASC
-- part: newest_first_by_tenant
seq DESC
-- part: oldest_first_by_tenant
seq ASC
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

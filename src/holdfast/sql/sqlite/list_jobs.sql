-- list_jobs: a page of jobs by seq, with filters.
-- params: none (those of the chosen fragments)
-- returns: job json
-- concurrency: read only; keyset pages on seq neither skip nor repeat while rows are inserted.
-- locks: none.
-- Filters and order are fixed fragments of job_fragments.sql.
SELECT json_object(
    'id', id, 'seq', seq, 'type_name', type_name, 'queue', queue, 'priority', priority, 'chain_id', chain_id,
    'chain_type_name', chain_type_name, 'chain_index', chain_index, 'input', json(input), 'output', json(output),
    'status', status, 'held', json(iif(held, 'true', 'false')), 'attempt', attempt, 'max_attempts', max_attempts,
    'crash_count', crash_count, 'created_at', created_at, 'scheduled_at', scheduled_at, 'ready_at', ready_at,
    'timeout_ms', timeout_ms, 'last_attempt_at', last_attempt_at, 'finished_at', finished_at,
    'completed_by', completed_by, 'duration_ms', duration_ms, 'last_attempt_error', json(last_attempt_error),
    'leased_by', leased_by, 'leased_until', leased_until, 'lease_generation', lease_generation, 'tenant', tenant,
    'headers', json(headers)
) AS job
FROM /*schema.*/job AS job
WHERE /*filters*/true
ORDER BY /*order*/job.seq DESC
LIMIT /*limit*/50;

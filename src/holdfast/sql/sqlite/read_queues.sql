-- read_queues: what people have set for queues: pauses that last, and limits.
-- params: now timestamptz, queue text
-- returns: queue json
-- concurrency: read only; one queue, or with null all that have something set.
-- locks: none.
SELECT json_object(
    'name', name, 'paused_at', iif(is_paused, paused_at, NULL), 'resume_at', iif(is_paused, resume_at, NULL),
    'paused_by', iif(is_paused, paused_by, NULL), 'pause_reason', iif(is_paused, pause_reason, NULL),
    'concurrency', concurrency, 'rate', rate, 'burst', burst,
    'key_concurrency', key_concurrency, 'key_rate', key_rate, 'key_burst', key_burst, 'fair_by', fair_by
) AS queue
FROM (
    SELECT *, paused_at IS NOT NULL AND (resume_at IS NULL OR resume_at > :now) AS is_paused FROM /*schema.*/queue AS known
) AS queue
WHERE CASE WHEN :queue IS NULL THEN is_paused OR fair_by IS NOT NULL OR concurrency IS NOT NULL OR rate IS NOT NULL
                OR key_concurrency IS NOT NULL OR key_rate IS NOT NULL ELSE name = :queue END
ORDER BY name;

-- read_queues: what people have set for queues: pauses that last, and limits.
-- params: now timestamptz, queue text
-- returns: queue json
-- concurrency: read only; one queue, or with null all that have something set.
-- locks: none.
SELECT json_build_object(
    'name', name, 'paused_at', CASE WHEN is_paused THEN paused_at END, 'resume_at', CASE WHEN is_paused THEN resume_at END,
    'paused_by', CASE WHEN is_paused THEN paused_by END, 'pause_reason', CASE WHEN is_paused THEN pause_reason END,
    'concurrency', concurrency, 'rate', rate, 'burst', burst,
    'key_concurrency', key_concurrency, 'key_rate', key_rate, 'key_burst', key_burst, 'fair_by', fair_by
)::text AS queue
FROM /*schema.*/queue AS queue,
     LATERAL (
         SELECT paused_at IS NOT NULL
                AND (resume_at IS NULL OR resume_at > /*moment*/statement_timestamp()) AS is_paused
     ) AS pause
WHERE CASE WHEN CAST(:queue AS text) IS NULL THEN is_paused OR fair_by IS NOT NULL OR concurrency IS NOT NULL OR rate IS NOT NULL
                OR key_concurrency IS NOT NULL OR key_rate IS NOT NULL
           ELSE name = CAST(:queue AS text) END
ORDER BY name;

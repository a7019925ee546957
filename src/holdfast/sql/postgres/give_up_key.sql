-- give_up_key: let a chain that has begun go on without its deduplication key, and without further attempts.
-- params: chain text, job text, max_attempts integer
-- returns: none
-- concurrency: the rows are locked before (lock_chains). job is the chain's last; a null max_attempts leaves it alone.
-- locks: job rows that are locked already.
UPDATE /*schema.*/job AS job
SET deduplication_key = CASE WHEN chain_index = 0 THEN NULL ELSE deduplication_key END,
    deduplication_scope = CASE WHEN chain_index = 0 THEN NULL ELSE deduplication_scope END,
    max_attempts = CASE WHEN id = CAST(CAST(:job AS text) AS /*id*/uuid)
                        THEN coalesce(CAST(:max_attempts AS integer), max_attempts) ELSE max_attempts END
WHERE id IN (CAST(CAST(:chain AS text) AS /*id*/uuid), CAST(CAST(:job AS text) AS /*id*/uuid));

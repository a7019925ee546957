-- give_up_key: let a chain that has begun go on without its deduplication key, and without further attempts.
-- params: chain text, job text, max_attempts integer
-- returns: none
-- concurrency: inside the write transaction that read it. job is the chain's last; a null max_attempts leaves it alone.
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET deduplication_key = iif(chain_index = 0, NULL, deduplication_key),
    deduplication_scope = iif(chain_index = 0, NULL, deduplication_scope),
    max_attempts = iif(id = :job, ifnull(:max_attempts, max_attempts), max_attempts)
WHERE id IN (:chain, :job);

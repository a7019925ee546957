-- hold_lease: make sure that a job stays its holder's until the end of the transaction.
-- params: id text, lease_generation bigint
-- returns: outcome text ('held'; else why the job is not the holder's: 'completed', 'completed_here', 'cancelled',
--   'deleted', 'lost')
-- concurrency: fenced by (id, lease_generation, running). The update changes nothing; it asks for the write lock, which a
--   transaction that has only read does not have.
-- locks: the database's write lock.
-- part: holding
UPDATE /*schema.*/job AS job SET status = status
WHERE id = :id AND lease_generation = :lease_generation AND status = 'running';
-- part: outcome
SELECT ifnull((
    SELECT CASE WHEN status = 'completed' AND completed_by IS NULL THEN 'completed'
                WHEN lease_generation <> :lease_generation THEN 'lost'
                WHEN status = 'running' THEN 'held'
                WHEN status = 'completed' THEN 'completed_here'
                WHEN status = 'cancelled' THEN 'cancelled'
                ELSE 'lost' END
    FROM /*schema.*/job AS job WHERE id = :id
), 'deleted') AS outcome;

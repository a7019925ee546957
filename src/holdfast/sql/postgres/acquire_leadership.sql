-- acquire_leadership: become the leader if there is none.
-- params: now timestamptz, worker text, lease_ms bigint
-- returns: term bigint (no row: somebody leads)
-- concurrency: whoever comes second waits for the row and finds the first one's lease on it. Every success is a new term.
-- locks: the one row of leader.
INSERT INTO /*schema.*/leader AS office (name, term, worker_id, elected_at, leased_until)
SELECT 'maintenance', 1, CAST(:worker AS text), moment, moment + CAST(:lease_ms AS bigint) * interval '1 millisecond'
FROM (SELECT /*moment*/statement_timestamp() AS moment) AS clock
ON CONFLICT (name) DO UPDATE
SET term = office.term + 1, worker_id = excluded.worker_id, elected_at = excluded.elected_at,
    leased_until = excluded.leased_until
WHERE office.leased_until <= excluded.elected_at
RETURNING term;

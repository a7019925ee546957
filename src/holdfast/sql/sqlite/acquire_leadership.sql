-- acquire_leadership: become the leader if there is none.
-- params: now timestamptz, worker text, lease_ms bigint
-- returns: term bigint (no row: somebody leads)
-- concurrency: inside a write transaction. Every success is a new term.
-- locks: the database's write lock.
INSERT INTO /*schema.*/leader AS office (name, term, worker_id, elected_at, leased_until)
VALUES ('maintenance', 1, :worker, :now,
        strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :lease_ms / 1000.0)) || '000Z')
ON CONFLICT (name) DO UPDATE
SET term = office.term + 1, worker_id = excluded.worker_id, elected_at = excluded.elected_at,
    leased_until = excluded.leased_until
WHERE office.leased_until <= excluded.elected_at
RETURNING term;

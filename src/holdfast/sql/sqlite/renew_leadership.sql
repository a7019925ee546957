-- renew_leadership: lead for longer.
-- params: now timestamptz, worker text, term bigint, lease_ms bigint
-- returns: term bigint (no row: the term is over)
-- concurrency: fenced by (worker, term). A lease that has run out is not renewed, even if nobody has taken it: its holder
--   may have been away, and starts anew with a term of its own.
-- locks: the database's write lock.
UPDATE /*schema.*/leader AS office
SET leased_until = strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :lease_ms / 1000.0)) || '000Z'
WHERE name = 'maintenance' AND worker_id = :worker AND term = :term AND leased_until > :now
RETURNING term;

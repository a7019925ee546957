-- renew_leadership: lead for longer.
-- params: now timestamptz, worker text, term bigint, lease_ms bigint
-- returns: term bigint (no row: the term is over)
-- concurrency: fenced by (worker, term). A lease that has run out is not renewed, even if nobody has taken it: its holder
--   may have been away, and starts anew with a term of its own.
-- locks: the one row of leader.
UPDATE /*schema.*/leader AS office
SET leased_until = /*moment*/statement_timestamp()
                   + CAST(:lease_ms AS bigint) * interval '1 millisecond'
WHERE name = 'maintenance' AND worker_id = CAST(:worker AS text) AND term = CAST(:term AS bigint)
  AND leased_until > /*moment*/statement_timestamp()
RETURNING term;

-- resign_leadership: stop leading, so that another may begin at once.
-- params: now timestamptz, worker text, term bigint
-- returns: term bigint (no row: it did not lead)
-- concurrency: fenced by (worker, term); without a term, by the worker alone: the answer to an election may have been lost.
-- locks: the one row of leader.
UPDATE /*schema.*/leader AS office
SET worker_id = NULL, leased_until = /*moment*/statement_timestamp()
WHERE name = 'maintenance' AND worker_id = CAST(:worker AS text) AND term = coalesce(CAST(:term AS bigint), term)
RETURNING term;

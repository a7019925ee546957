-- advance_schedule: write down how far a schedule has come, and what it enqueued last.
-- params: now timestamptz, app text, name text, next_at timestamptz, last_tick_at timestamptz, last_chain_id text
-- returns: none
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
UPDATE /*schema.*/schedule AS schedule
SET next_at = :next_at, last_tick_at = ifnull(:last_tick_at, last_tick_at),
    last_chain_id = ifnull(:last_chain_id, last_chain_id),
    last_fired_at = iif(:last_chain_id IS NULL, last_fired_at, :now)
WHERE app = :app AND name = :name;

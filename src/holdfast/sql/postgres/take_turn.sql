-- take_turn: be next at jobs that others share all the time, one after the other without a gap.
-- params: jobs json, patience_ms bigint, pause_ms bigint
-- returns: taken bigint
-- concurrency: whoever puts jobs behind a chain shares its last job's row with others who do, and new ones pass whoever
--   waits to change it. The turn (see hold_chains) is a lock of PostgreSQL's own, with a queue: who comes now waits behind us,
--   we wait for those that are there, no longer than patience, and the row is free then. A turn is for one in 256 jobs:
--   a transaction that waits for thousands of chains must not fill the server's table of locks.
--   The deadlock detector lets those pass that hold up each other only by their places in such queues.
--   With a pause we keep the turn for so long, for others: claims pass by what is locked, and none can wait.
-- locks: turns in their order; waited for.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', CAST(:patience_ms AS bigint) || 'ms', true) AS is_set
),
turn AS MATERIALIZED (
    SELECT count(pg_advisory_xact_lock(1213156420, turn)) AS taken
    FROM patience CROSS JOIN (
        SELECT DISTINCT hashtext(id) & 255 AS turn
        FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS sent (id)
        ORDER BY turn
    ) AS turns
    WHERE is_set <> ''
)
SELECT taken
FROM turn
WHERE CAST(:pause_ms AS bigint) = 0 OR pg_sleep(CAST(:pause_ms AS bigint) / 1000.0 * least(taken, 1)) IS NOT NULL;

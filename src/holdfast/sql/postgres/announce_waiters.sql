-- announce_waiters: have the ends of chains told on a channel.
-- only: postgres
-- params: now timestamptz, channel text, chains json
-- returns: none
-- concurrency: rows of the channel's own; announcing again says that somebody still waits. What others announced an hour
--   ago and never withdrew died with them, and goes.
-- locks: rows of the waiter table; those that somebody has locked are left for the next time.
WITH clock AS (SELECT /*moment*/statement_timestamp() AS moment),
forgotten AS (
    DELETE FROM /*schema.*/waiter AS waiter
    WHERE (chain_id, channel) IN (
        SELECT old.chain_id, old.channel
        FROM clock, /*schema.*/waiter AS old
        WHERE old.announced_at < moment - interval '1 hour' AND old.channel <> CAST(:channel AS text)
        FOR UPDATE OF old SKIP LOCKED
    )
)
INSERT INTO /*schema.*/waiter (chain_id, channel, announced_at)
SELECT CAST(chain_id AS /*id*/uuid), CAST(:channel AS text), moment
FROM clock, json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS asked (chain_id)
ON CONFLICT (chain_id, channel) DO UPDATE SET announced_at = excluded.announced_at;

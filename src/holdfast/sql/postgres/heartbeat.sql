-- heartbeat: keep a worker's row fresh.
-- params: now timestamptz, worker text, status text, dead_after_ms bigint
-- returns: id text, has_leader boolean, settings text (a document; null: none)
-- concurrency: one HOT update of the worker's own row; no row back means it was cleaned up: register again. Whether
--   anybody leads, and what operators have set for retries, is looked up on the way, so that nobody need ask. After a gap it is heard since now.
-- locks: one worker row.
UPDATE /*schema.*/worker AS worker
SET last_seen_at = /*moment*/statement_timestamp(),
    heard_since = CASE WHEN last_seen_at < /*moment*/statement_timestamp()
                                           - CAST(:dead_after_ms AS bigint) * interval '0.5 milliseconds'
                       THEN /*moment*/statement_timestamp() ELSE heard_since END,
    status = CAST(:status AS text)
WHERE id = CAST(:worker AS text)
RETURNING id, EXISTS (
    SELECT FROM /*schema.*/leader AS office
    WHERE office.name = 'maintenance'
      AND office.leased_until > /*moment*/statement_timestamp()
) AS has_leader, (
    SELECT json_object_agg(setting.name, setting.value)::text FROM /*schema.*/setting AS setting
    WHERE setting.name LIKE 'retry\_%'
) AS settings;

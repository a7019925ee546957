-- heartbeat: keep a worker's row fresh.
-- params: now timestamptz, worker text, status text, dead_after_ms bigint
-- returns: id text, has_leader boolean, settings text (a document; null: none)
-- concurrency: the worker's own row; no row back means it was cleaned up: register again. Whether anybody leads, and
--   what operators have set for retries, is looked up on the way, so that nobody need ask. After a gap it is heard since now.
-- locks: the database's write lock.
UPDATE /*schema.*/worker AS worker
SET last_seen_at = :now,
    heard_since = iif(
        last_seen_at < strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :dead_after_ms / 2000.0)) || '000Z',
        :now, heard_since),
    status = :status
WHERE id = :worker
RETURNING id, EXISTS (
    SELECT 1 FROM /*schema.*/leader AS office WHERE office.name = 'maintenance' AND office.leased_until > :now
) AS has_leader, (
    SELECT json_group_object(setting.name, json(setting.value)) FROM /*schema.*/setting AS setting
    WHERE setting.name LIKE 'retry\_%' ESCAPE '\'
    HAVING count(*) > 0
) AS settings;

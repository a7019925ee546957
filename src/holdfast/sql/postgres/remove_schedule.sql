-- remove_schedule: drop a schedule with what it knows; what it has enqueued stays.
-- params: app text, name text
-- returns: name text (none if there was no such schedule)
-- concurrency: one that is just being fired is waited for.
-- locks: one schedule row.
DELETE FROM /*schema.*/schedule AS schedule
WHERE app = CAST(:app AS text) AND name = CAST(:name AS text)
RETURNING name;

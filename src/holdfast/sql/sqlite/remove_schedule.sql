-- remove_schedule: drop a schedule with what it knows; what it has enqueued stays.
-- params: app text, name text
-- returns: name text (none if there was no such schedule)
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
DELETE FROM /*schema.*/schedule AS schedule WHERE app = :app AND name = :name RETURNING name;

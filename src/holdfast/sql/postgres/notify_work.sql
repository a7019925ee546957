-- notify_work: wake workers that wait for the given queues.
-- only: postgres
-- params: channel text, queues json
-- returns: set_config text, hints bigint
-- concurrency: hints only, sent after the commit of the work. A NOTIFY commits under a lock that all of the server's
--   notifiers share; without waiting for the disk it holds that lock for microseconds.
-- locks: PostgreSQL's notification queue, briefly.
SELECT set_config('synchronous_commit', 'off', true), count(pg_notify(CAST(:channel AS text), queue)) AS hints
FROM json_array_elements_text(CAST(CAST(:queues AS text) AS json)) AS woken (queue);

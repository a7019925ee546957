-- notify_work: wake workers that wait for the given queues.
-- only: postgres
-- params: channel text, queues json, is_alone boolean
-- returns: setting text, hints bigint
-- concurrency: hints only. A NOTIFY commits under a lock that all of the server's notifiers share; without waiting for the
--   disk it holds that lock for microseconds. That is for hints that are alone in their transaction: what else it writes,
--   such as the caller's own rows, must be on disk when it has committed.
-- locks: PostgreSQL's notification queue, briefly.
SELECT CASE WHEN CAST(:is_alone AS boolean) THEN set_config('synchronous_commit', 'off', true) END AS setting,
       count(pg_notify(CAST(:channel AS text), queue)) AS hints
FROM json_array_elements_text(CAST(CAST(:queues AS text) AS json)) AS woken (queue);

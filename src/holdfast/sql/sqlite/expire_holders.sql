-- expire_holders: cancel the overdue jobs whose keys somebody else takes.
-- params: now timestamptz, jobs json
-- returns: none
-- concurrency: inside the write transaction that judged them (judge_keys).
-- locks: the database's write lock.
UPDATE /*schema.*/job AS job
SET status = 'cancelled', finished_at = :now,
    last_attempt_error = json_object('type', 'Expired', 'message',
        'not started by ' || replace(substr(expires_at, 1, 19), 'T', ' ') || ' UTC')
WHERE id IN (SELECT value FROM json_each(:jobs)) AND status IN ('pending', 'blocked') AND attempt = 0;

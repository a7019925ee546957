-- expire_holders: cancel the overdue jobs whose keys somebody else takes.
-- params: now timestamptz, jobs json
-- returns: queue text (those in which the next job of a partition key may be claimed by this)
-- concurrency: inside the write transaction that judged them (judge_keys).
-- locks: the database's write lock.
-- part: freed
SELECT json_group_array(DISTINCT queue) AS freed FROM /*schema.*/job AS job
WHERE id IN (SELECT value FROM json_each(:jobs)) AND status IN ('pending', 'blocked') AND attempt = 0
  AND partition_key IS NOT NULL AND (held = 0 OR limited = 1);
-- part: expired
UPDATE /*schema.*/job AS job
SET status = 'cancelled', finished_at = :now,
    last_attempt_error = json_object('type', 'Expired', 'message',
        'not started by ' || replace(substr(expires_at, 1, 19), 'T', ' ') || ' UTC')
WHERE id IN (SELECT value FROM json_each(:jobs)) AND status IN ('pending', 'blocked') AND attempt = 0;
-- part: woken
SELECT value AS queue FROM json_each(:freed);

-- judge_keys: whether those who took keys before still hold them.
-- params: now timestamptz, keys json
-- returns: place integer, chain_id text, is_holding boolean, is_replaceable boolean, tail_status text (null where the
--   chain is gone), overdue_id text (the chain's last job, if it should have been started by now and was not)
-- concurrency: inside a write transaction. The holder's scope says until when he holds: 'pending' until his first claim,
--   'unfinished' until his chain has ended, 'forever'; a caller's window makes older holders give the key up.
--   To an enqueue (it says what to do on a conflict) a chain that will only be expired holds its key no more: the caller
--   expires it.
-- locks: the database's write lock.
SELECT place, chain_id,
       is_recent AND CASE scope
           WHEN 'forever' THEN 1
           WHEN 'pending' THEN ifnull(lease_generation = 0 AND status IN ('pending', 'blocked') AND overdue_id IS NULL, 0)
           ELSE ifnull(iif(is_tail, status, later_status) IN ('pending', 'blocked', 'running') AND overdue_id IS NULL, 0)
       END AS is_holding,
       ifnull(is_tail AND status IN ('pending', 'blocked'), 0) AS is_replaceable,
       iif(is_tail, status, later_status) AS tail_status, overdue_id
FROM (
    SELECT json_extract(asked.value, '$.place') AS place, taken.chain_id, taken.scope,
           json_extract(asked.value, '$.window_ms') IS NULL OR taken.taken_at > strftime('%Y-%m-%dT%H:%M:%f', :now,
               printf('-%.3f seconds', json_extract(asked.value, '$.window_ms') / 1000.0)) || '000Z' AS is_recent,
           first.status, first.is_tail, first.lease_generation, tail.status AS later_status,
           CASE WHEN json_extract(asked.value, '$.on_conflict') IS NULL THEN NULL
                WHEN first.is_tail AND first.attempt = 0 AND first.status IN ('pending', 'blocked') AND first.expires_at <= :now THEN first.id
                WHEN tail.attempt = 0 AND tail.status IN ('pending', 'blocked') AND tail.expires_at <= :now THEN tail.id END AS overdue_id
    FROM json_each(:keys) AS asked
    CROSS JOIN /*schema.*/deduplication AS taken
        ON taken.type_name = json_extract(asked.value, '$.type_name') AND taken.key = json_extract(asked.value, '$.key')
    LEFT JOIN /*schema.*/job AS first ON first.id = taken.chain_id
    LEFT JOIN /*schema.*/job AS tail ON tail.chain_id = taken.chain_id AND tail.chain_index > 0 AND tail.is_tail
);

-- limit_queue: from now on these are the limits of a queue; null means none.
-- params: now timestamptz, queue text, concurrency integer, rate float8, burst integer, key_concurrency integer, key_rate float8, key_burst integer, fair_by text
-- returns: none
-- concurrency: an upsert; whoever deals out shares of the limits holds this row's lock meanwhile.
--   Of concurrency keys those that the old rate made due later are due now, to be judged anew, and what was spent of the old
--   rate counts for no more than a whole burst of the new one.
-- locks: the database's write lock.
-- part: moment
SELECT /*microseconds*/now() AS moment;
-- part: late
SELECT EXISTS (SELECT 1 FROM /*schema.*/limited_key AS state WHERE state.queue = :queue AND state.due_at > :moment) AS late;
-- part: brought
-- if: late
UPDATE /*schema.*/job AS job SET ready_at = :now
WHERE seq IN (
    SELECT later.seq
    FROM (
        SELECT seq, concurrency_key, ready_at FROM /*schema.*/job AS job
        WHERE queue = :queue AND status = 'pending' AND held = 0 AND crash_count = 0 AND is_fair = 0 AND ready_at > :now
        UNION ALL
        SELECT seq, concurrency_key, ready_at FROM /*schema.*/job AS job
        WHERE queue = :queue AND status = 'pending' AND held = 0 AND crash_count = 0 AND is_fair = 1 AND ready_at > :now
        UNION ALL
        SELECT seq, concurrency_key, ready_at FROM /*schema.*/job AS job
        WHERE queue = :queue AND status = 'pending' AND held = 0 AND crash_count > 0 AND ready_at > :now
    ) AS later
    CROSS JOIN /*schema.*/limited_key AS state ON state.queue = :queue AND state.concurrency_key = later.concurrency_key
    WHERE later.ready_at = strftime('%Y-%m-%dT%H:%M:%S', state.due_at / 1000000, 'unixepoch')
                           || printf('.%06dZ', state.due_at % 1000000)
);
-- part: adjusted
UPDATE /*schema.*/limited_key AS state
SET due_at = NULL, full_at = min(full_at, :moment + ifnull(CAST(:key_burst * 1000000 / :key_rate AS INTEGER), 0))
WHERE queue = :queue;
-- part: limited
INSERT INTO /*schema.*/queue AS known (
    name, concurrency, rate, burst, key_concurrency, key_rate, key_burst, fair_by, changed_at
)
SELECT :queue, :concurrency, :rate, :burst, :key_concurrency, :key_rate, :key_burst, :fair_by,
       :now
WHERE true
ON CONFLICT (name) DO UPDATE
SET concurrency = excluded.concurrency, rate = excluded.rate, burst = excluded.burst,
    key_concurrency = excluded.key_concurrency, key_rate = excluded.key_rate, key_burst = excluded.key_burst,
    fair_by = excluded.fair_by, changed_at = excluded.changed_at;

-- heard_steadily: whether the database could be reached without a gap for dead_after, so that whoever was not heard is silent
--   by himself.
-- params: now timestamptz, dead_after_ms bigint
-- returns: is_steady boolean
-- concurrency: read only. Who it was that reached it does not matter: workers that died or have left count as well. A gap
--   is longer than half of dead_after: whoever lives has been heard again by then.
-- locks: none.
WITH span AS MATERIALIZED (
    SELECT moment, patience, moment - patience AS start
    FROM (
        SELECT /*moment*/statement_timestamp() AS moment,
               CAST(:dead_after_ms AS bigint) * interval '1 millisecond' AS patience
    ) AS given
),
heard AS (
    SELECT worker.heard_since, worker.last_seen_at FROM /*schema.*/worker AS worker
    UNION ALL
    SELECT retired.heard_since, retired.last_seen_at FROM /*schema.*/retired AS retired
),
recent AS (
    SELECT heard_since, last_seen_at, max(last_seen_at) OVER (
        ORDER BY heard_since, last_seen_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS last_seen_before
    FROM heard, span WHERE last_seen_at >= start - patience / 2
)
SELECT coalesce(
    bool_and(heard_since <= start OR coalesce(heard_since <= last_seen_before + patience / 2, false))
    AND max(last_seen_at) >= max(moment - patience / 2), false) AS is_steady
FROM recent, span;

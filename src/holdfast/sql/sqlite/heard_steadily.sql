-- heard_steadily: whether the database could be reached without a gap for dead_after, so that whoever was not heard is silent
--   by himself.
-- params: now timestamptz, dead_after_ms bigint
-- returns: is_steady boolean
-- concurrency: read only. Who it was that reached it does not matter: workers that died or have left count as well. A gap
--   is longer than half of dead_after: whoever lives has been heard again by then.
-- locks: none.
WITH span AS MATERIALIZED (
    SELECT round(julianday(:now) * 86400000) AS moment, :dead_after_ms AS patience
),
heard AS (
    SELECT heard_since, last_seen_at FROM /*schema.*/worker AS worker
    UNION ALL
    SELECT heard_since, last_seen_at FROM /*schema.*/retired AS retired
),
counted AS MATERIALIZED (
    SELECT round(julianday(heard_since) * 86400000) AS heard_since,
           round(julianday(last_seen_at) * 86400000) AS last_seen_at
    FROM heard
),
recent AS (
    SELECT heard_since, last_seen_at, max(last_seen_at) OVER (
        ORDER BY heard_since, last_seen_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS last_seen_before
    FROM counted, span WHERE last_seen_at >= moment - patience * 1.5
)
SELECT ifnull(
    min(heard_since <= moment - patience OR ifnull(heard_since <= last_seen_before + patience / 2.0, 0))
    AND max(last_seen_at) >= max(moment - patience / 2.0), 0) AS is_steady
FROM recent, span;

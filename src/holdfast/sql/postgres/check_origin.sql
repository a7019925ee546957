-- check_origin: whether this is the database that workers have worked in before, and not a restored backup or a copy of it.
-- params: now timestamptz, place text, dead_after_ms bigint, accept boolean, actor text
-- returns: found text, recorded text (null: no worker has been here), is_ours boolean
-- concurrency: of several that come first, one writes; all find the same. Recorded are the cluster, its timeline and the
--   database: a dump that was loaded elsewhere has another cluster or database, a cluster that was wound back another
--   timeline. A fail-over changes the timeline too, but workers that were there before it are heard after it, and not in a
--   cluster that was wound back. Nothing else is excused by their being heard: in a fresh copy they are as well.
--   The timeline is that of the next write: pg_control_checkpoint() tells the old one until the first checkpoint.
-- locks: the one row of origin, where it changes.
WITH known AS (
    SELECT place, recorded, (
               place = recorded OR recorded IS NULL OR CAST(:accept AS boolean)
               OR regexp_replace(place, '/[^/]*(/[^/]*)$', '\1') = regexp_replace(recorded, '/[^/]*(/[^/]*)$', '\1') AND EXISTS (
                   SELECT FROM /*schema.*/worker AS worker
                   WHERE worker.status <> 'dead'
                     AND worker.last_seen_at > /*moment*/statement_timestamp()
                                               - CAST(:dead_after_ms AS bigint) * interval '1 millisecond'
               )
           ) AS is_ours
    FROM (
        SELECT concat_ws('/', CAST(:place AS text), cluster.system_identifier, timeline, here.oid) AS place,
               (SELECT origin.place FROM /*schema.*/origin AS origin) AS recorded
        FROM pg_control_system() AS cluster, pg_database AS here, LATERAL (
            SELECT CASE WHEN NOT pg_is_in_recovery() THEN
                       CAST(CAST('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS bit(32)) AS integer)
                   END AS timeline
        ) AS history
        WHERE here.datname = current_database()
    ) AS found
),
written AS (
    INSERT INTO /*schema.*/origin AS origin (is_only, place, recorded_at, recorded_by)
    SELECT true, place, /*moment*/statement_timestamp(), CAST(:actor AS text)
    FROM known WHERE is_ours AND place IS DISTINCT FROM recorded
    ON CONFLICT (is_only) DO UPDATE
    SET place = excluded.place, recorded_at = excluded.recorded_at, recorded_by = excluded.recorded_by
)
SELECT place AS found, recorded, is_ours FROM known;

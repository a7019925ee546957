-- find_starved: those of these chains whose last jobs should have been claimed, and cannot be because others share them.
-- params: now timestamptz, chains json
-- returns: id text (of the job)
-- concurrency: claims pass by what is locked. A look alone, so what was locked only for a moment may be among them.
-- locks: job rows by id, for the length of the statement; never waited for.
WITH asked AS MATERIALIZED (
    SELECT CAST(id AS /*id*/uuid) AS id FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS chain (id)
),
due AS MATERIALIZED (
    SELECT id FROM (
        SELECT id, queue, status, held, ready_at FROM /*schema.*/job AS job
        WHERE id = ANY (ARRAY(SELECT id FROM asked)) AND chain_index = 0 AND is_tail
        UNION ALL
        SELECT id, queue, status, held, ready_at FROM /*schema.*/job AS job
        WHERE chain_id = ANY (ARRAY(SELECT id FROM asked)) AND chain_index > 0 AND is_tail
    ) AS tail
    WHERE status = 'pending' AND NOT held
      AND ready_at <= /*moment*/statement_timestamp() - interval '1 second'
      AND queue NOT IN (SELECT name FROM /*schema.*/queue AS paused WHERE paused_at IS NOT NULL)
),
free AS MATERIALIZED (
    SELECT id FROM /*schema.*/job AS job WHERE id = ANY (ARRAY(SELECT id FROM due))
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT id::text AS id FROM due WHERE id NOT IN (SELECT id FROM free);

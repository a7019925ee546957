-- settle_chains: tell those who wait for chains that these have ended.
-- params: now timestamptz, chains json, patient boolean, ended_here boolean
-- returns: unsettled text, woken_queue text (one of the two is null: a chain with a dependant that somebody has locked, or
--   a queue that got work)
-- concurrency: see settle_dependants in the first migration. Telling again changes nothing.
--   Where this transaction ended them (ended_here), it must be able to see who waits.
-- locks: dependants by id; waited for with patience, left alone without.
SELECT unsettled::text, woken_queue
FROM /*schema.*/settle_dependants(
    ARRAY(SELECT CAST(id AS /*id*/uuid) FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS chain (id)),
    /*moment*/statement_timestamp(),
    CAST(:patient AS boolean),
    coalesce(CAST(:ended_here AS boolean), true)
);

-- find_starved: those of these chains whose last jobs should have been claimed, and cannot be because others share them.
-- params: now timestamptz, chains json
-- returns: id text (of the job)
-- concurrency: there is one writer at a time, and nobody shares.
-- locks: none.
SELECT value AS id FROM json_each(:chains) WHERE :now IS NULL;

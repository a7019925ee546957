-- close_archive: drop what lies in the archive for longer than keep_ms, and is needed by no job that has not completed.
-- params: now timestamptz, keep_ms bigint
-- returns: closed bigint (weeks)
-- concurrency: whole weeks; chains that are needed move on to this one. Left for another time where somebody reads the
--   archive for longer than a moment. Up to /*limit*/500 rows at a time is SQLite's.
-- locks: the archive as a whole, waited for for no more than 100 ms.
SELECT /*schema.*/close_archive(
    /*moment*/statement_timestamp() - CAST(:keep_ms AS bigint) * interval '1 millisecond',
    /*moment*/statement_timestamp()
)::bigint AS closed;

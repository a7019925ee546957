-- take_turn: be next at jobs that others share all the time, one after the other without a gap.
-- params: jobs json, patience_ms bigint, pause_ms bigint
-- returns: taken bigint
-- concurrency: there is one writer at a time, and nobody shares.
-- locks: the database's write lock.
SELECT count(*) AS taken FROM json_each(:jobs) WHERE :patience_ms > :pause_ms;

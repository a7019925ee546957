-- insert_job: insert a new job that has none of the rarer options.
-- params: now timestamptz, id uuid, type_name text, queue text, priority smallint, input json, scheduled_at timestamptz, delay_ms bigint, max_attempts smallint, timeout_ms bigint, headers json, channel text
-- returns: none
-- concurrency: as insert_jobs, for one job: there is no document to take apart; on a connection of our own it is a
--   transaction by itself. The time is said twice: for a SELECT that says it once, SQLite makes a table of its own, because
--   the table has a trigger. channel is PostgreSQL's.
-- locks: the database's write lock.
INSERT INTO /*schema.*/job (
    id, chain_id, type_name, chain_type_name, queue, priority, input, created_at, scheduled_at, ready_at,
    max_attempts, timeout_ms, headers
)
VALUES (
    :id, :id, :type_name, :type_name, :queue, :priority, :input, :now,
    max(:now, CASE WHEN :delay_ms IS NOT NULL
              THEN strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :delay_ms / 1000.0)) || '000Z'
              ELSE ifnull(:scheduled_at, :now) END),
    max(:now, CASE WHEN :delay_ms IS NOT NULL
              THEN strftime('%Y-%m-%dT%H:%M:%f', :now, printf('+%.3f seconds', :delay_ms / 1000.0)) || '000Z'
              ELSE ifnull(:scheduled_at, :now) END),
    :max_attempts, :timeout_ms, :headers
);

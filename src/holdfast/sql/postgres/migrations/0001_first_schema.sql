-- 0001_first_schema: the job table with every column that would be costly to add later, types, workers, attempts.
-- locks: creates new objects only; nothing of the application is touched.
-- deploy order: migrate first, then start code 0.1.0.
-- oldest code: 0.1.0
-- part: job_status
-- The vocabulary of states, to join against; the CHECK on job.status says the same.
CREATE TABLE /*schema.*/job_status (
    status       text PRIMARY KEY,
    is_terminal  boolean NOT NULL,
    is_claimable boolean NOT NULL
);
-- part: job_status_rows
INSERT INTO /*schema.*/job_status (status, is_terminal, is_claimable) VALUES
    ('blocked', false, false),
    ('pending', false, true),
    ('running', false, false),
    ('completed', true, false),
    ('dead_letter', true, false),
    ('cancelled', true, false);
-- part: job
-- What every job has comes first and wide before narrow: an update looks at each indexed column of the old and the new
-- row, and finds those in front of the first NULL or text by their offset.
CREATE TABLE /*schema.*/job (
    id                  /*id*/uuid PRIMARY KEY,
    chain_id            /*id*/uuid NOT NULL,
    seq                 bigint GENERATED ALWAYS AS IDENTITY,
    lease_generation    bigint NOT NULL DEFAULT 0,
    created_at          timestamptz NOT NULL,
    scheduled_at        timestamptz NOT NULL,
    ready_at            timestamptz NOT NULL,
    chain_index         integer NOT NULL DEFAULT 0,
    revision            integer NOT NULL DEFAULT 0,
    priority            smallint NOT NULL DEFAULT 0,
    attempt             smallint NOT NULL DEFAULT 0,
    crash_count         smallint NOT NULL DEFAULT 0,
    held                boolean NOT NULL DEFAULT false,
    is_tail             boolean NOT NULL DEFAULT true,
    status              text NOT NULL DEFAULT 'pending'
                        CHECK (status IN ('blocked', 'pending', 'running', 'completed', 'dead_letter', 'cancelled')),
    queue               text NOT NULL,
    type_name           text NOT NULL,
    chain_type_name     text NOT NULL,
    input               json NOT NULL,
    output              json,
    leased_by           text,
    leased_until        timestamptz,
    last_attempt_at     timestamptz,
    finished_at         timestamptz,
    completed_by        text,
    duration_ms         bigint,
    timeout_ms          bigint,
    max_attempts        smallint CHECK (max_attempts >= 1),
    last_attempt_error  json,
    tenant              text,
    headers             json,
    chain_trace_context text,
    trace_context       text,
    expires_at          timestamptz,
    cancel_requested_at timestamptz,
    step                text,
    progress            json,
    deduplication_key   text,
    deduplication_scope text CHECK (deduplication_scope IN ('pending', 'unfinished', 'forever')),
    flags               text[],
    partition_key       text,
    partition_bucket    smallint CHECK (partition_bucket BETWEEN 0 AND 1023),
    partition_seq       bigint,
    ordering            text CHECK (ordering IN ('fifo', 'serial')),
    concurrency_key     text,
    on_blocker_failure  text CHECK (on_blocker_failure IN ('wait', 'cancel', 'run')),
    CONSTRAINT job_lease_check CHECK ((status = 'running') = (leased_by IS NOT NULL AND leased_until IS NOT NULL)),
    CONSTRAINT job_finished_check
        CHECK ((status IN ('completed', 'dead_letter', 'cancelled')) = (finished_at IS NOT NULL))
) WITH (
    -- Every job is written three times in its life and history is pruned: vacuum early, without throttling.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
-- part: job_seq_idx
-- Pages and cursors. Not UNIQUE: the identity sees to that, and every update would look up the old versions.
CREATE INDEX /*name*/job_seq_idx ON /*schema.*/job (seq);
-- part: job_claim_idx
-- Where claims look: only jobs that may run. Held jobs and suspects are not in it.
CREATE INDEX /*name*/job_claim_idx ON /*schema.*/job (queue, priority, ready_at, seq)
    WHERE status = 'pending' AND NOT held AND crash_count = 0;
-- part: job_suspect_idx
-- Suspects (jobs whose worker died) are claimed alone.
CREATE INDEX /*name*/job_suspect_idx ON /*schema.*/job (queue, ready_at, seq)
    WHERE status = 'pending' AND NOT held AND crash_count > 0;
-- part: job_lease_idx
-- What the reaper and renewals read. No index holds leased_until, so that a renewal can be HOT.
CREATE INDEX /*name*/job_lease_idx ON /*schema.*/job (leased_by) WHERE status = 'running';
-- part: job_chain_idx
-- One job per place in a chain; a first job's place is its primary key.
CREATE UNIQUE INDEX /*name*/job_chain_idx ON /*schema.*/job (chain_id, chain_index) WHERE chain_index > 0;
-- part: job_type
-- Queue and retry policy of each type, for the reaper and for SQL users.
CREATE TABLE /*schema.*/job_type (
    name          text PRIMARY KEY,
    queue         text NOT NULL,
    priority      smallint NOT NULL DEFAULT 0,
    max_attempts  smallint NOT NULL DEFAULT 5,
    retry         json NOT NULL,
    timeout_ms    bigint,
    registered_at timestamptz NOT NULL
);
-- part: worker
-- The fill factor leaves room for heartbeats to be HOT updates.
CREATE TABLE /*schema.*/worker (
    id           text PRIMARY KEY,
    status       text NOT NULL DEFAULT 'alive' CHECK (status IN ('alive', 'draining', 'dead')),
    started_at   timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    version      text NOT NULL,
    queues       json NOT NULL,
    metadata     json NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
-- part: prefetch
-- A row says: of what this worker claimed at that instant, some lies in its buffer and has not been started.
-- Until it is promoted that holds for all of it; promoted, and that committed, before the first of them starts; deleted
-- once the last has started. So a crash can only err towards "started".
CREATE TABLE /*schema.*/prefetch (
    worker_id   text NOT NULL,
    claimed_at  timestamptz NOT NULL,
    is_promoted boolean NOT NULL DEFAULT false,
    PRIMARY KEY (worker_id, claimed_at)
);
-- part: job_attempt
-- Attempts that did not complete their job; the one that did is on the job itself.
CREATE TABLE /*schema.*/job_attempt (
    job_id           /*id*/uuid NOT NULL,
    lease_generation bigint NOT NULL,
    started_at       timestamptz,
    ended_at         timestamptz NOT NULL,
    attempt          smallint NOT NULL,
    worker_id        text,
    outcome          text NOT NULL CHECK (outcome IN ('failed', 'crashed', 'expired')),
    error            json,
    PRIMARY KEY (job_id, lease_generation)
);
-- part: setting
-- Operators' overrides: 'max_attempts' for all, 'max_attempts:TYPE' for one type.
CREATE TABLE /*schema.*/setting (
    name       text PRIMARY KEY,
    value      json NOT NULL,
    changed_at timestamptz NOT NULL,
    CONSTRAINT setting_max_attempts_check
        CHECK (name NOT LIKE 'max\_attempts%' OR value::text ~ '^[1-9][0-9]{0,4}$')
);

-- 0001_first_schema: the job table with every column that would be costly to add later, types, workers, attempts.
-- locks: creates new objects only; nothing of the application is touched.
-- deploy order: migrate first, then start code 0.1.0.
-- oldest code: 0.1.0

-- The vocabulary of states, to join against; the CHECK on job.status says the same.
CREATE TABLE /*schema.*/job_status (
    status       TEXT PRIMARY KEY NOT NULL,
    is_terminal  INTEGER NOT NULL,
    is_claimable INTEGER NOT NULL
) WITHOUT ROWID;
-- part: job_status_rows
INSERT INTO /*schema.*/job_status (status, is_terminal, is_claimable) VALUES
    ('blocked', 0, 0),
    ('pending', 0, 1),
    ('running', 0, 0),
    ('completed', 1, 0),
    ('dead_letter', 1, 0),
    ('cancelled', 1, 0);
-- part: job
-- AUTOINCREMENT: a plain rowid is handed out again after a delete, and the order of enqueue would break.
CREATE TABLE /*schema.*/job (
    seq                 INTEGER PRIMARY KEY AUTOINCREMENT,
    id                  TEXT NOT NULL UNIQUE,
    chain_id            TEXT NOT NULL,
    lease_generation    INTEGER NOT NULL DEFAULT 0,
    partition_seq       INTEGER,
    duration_ms         INTEGER,
    timeout_ms          INTEGER,
    created_at          TEXT NOT NULL,
    scheduled_at        TEXT NOT NULL,
    ready_at            TEXT NOT NULL,
    expires_at          TEXT,
    last_attempt_at     TEXT,
    finished_at         TEXT,
    leased_until        TEXT,
    cancel_requested_at TEXT,
    chain_index         INTEGER NOT NULL DEFAULT 0,
    revision            INTEGER NOT NULL DEFAULT 0,
    priority            INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN -32768 AND 32767),
    attempt             INTEGER NOT NULL DEFAULT 0,
    max_attempts        INTEGER CHECK (max_attempts >= 1),
    crash_count         INTEGER NOT NULL DEFAULT 0,
    partition_bucket    INTEGER CHECK (partition_bucket BETWEEN 0 AND 1023),
    held                INTEGER NOT NULL DEFAULT 0,
    is_tail             INTEGER NOT NULL DEFAULT 1,
    status              TEXT NOT NULL DEFAULT 'pending'
                        CHECK (status IN ('blocked', 'pending', 'running', 'completed', 'dead_letter', 'cancelled')),
    type_name           TEXT NOT NULL,
    chain_type_name     TEXT NOT NULL,
    queue               TEXT NOT NULL,
    input               TEXT NOT NULL,
    output              TEXT,
    last_attempt_error  TEXT,
    leased_by           TEXT,
    completed_by        TEXT,
    step                TEXT,
    progress            TEXT,
    deduplication_key   TEXT,
    deduplication_scope TEXT CHECK (deduplication_scope IN ('pending', 'unfinished', 'forever')),
    flags               TEXT,
    partition_key       TEXT,
    ordering            TEXT CHECK (ordering IN ('fifo', 'serial')),
    concurrency_key     TEXT,
    on_blocker_failure  TEXT CHECK (on_blocker_failure IN ('wait', 'cancel', 'run')),
    tenant              TEXT,
    headers             TEXT,
    chain_trace_context TEXT,
    trace_context       TEXT,
    CHECK ((status = 'running') = (leased_by IS NOT NULL AND leased_until IS NOT NULL)),
    CHECK ((status IN ('completed', 'dead_letter', 'cancelled')) = (finished_at IS NOT NULL))
);
-- part: job_claim_idx
-- Where claims look: only jobs that may run. Held jobs and suspects are not in it.
CREATE INDEX /*name*/job_claim_idx ON /*schema.*/job (queue, priority, ready_at, seq)
    WHERE status = 'pending' AND held = 0 AND crash_count = 0;
-- part: job_suspect_idx
-- Suspects (jobs whose worker died) are claimed alone.
CREATE INDEX /*name*/job_suspect_idx ON /*schema.*/job (queue, ready_at, seq)
    WHERE status = 'pending' AND held = 0 AND crash_count > 0;
-- part: job_lease_idx
-- What the reaper and renewals read.
CREATE INDEX /*name*/job_lease_idx ON /*schema.*/job (leased_by) WHERE status = 'running';
-- part: job_chain_idx
-- One job per place in a chain; a first job's place is its id.
CREATE UNIQUE INDEX /*name*/job_chain_idx ON /*schema.*/job (chain_id, chain_index) WHERE chain_index > 0;
-- part: job_type
-- Queue and retry policy of each type, for the reaper and for SQL users.
CREATE TABLE /*schema.*/job_type (
    name          TEXT PRIMARY KEY NOT NULL,
    queue         TEXT NOT NULL,
    priority      INTEGER NOT NULL DEFAULT 0,
    max_attempts  INTEGER NOT NULL DEFAULT 5,
    retry         TEXT NOT NULL,
    timeout_ms    INTEGER,
    registered_at TEXT NOT NULL
) WITHOUT ROWID;
-- part: worker
CREATE TABLE /*schema.*/worker (
    id           TEXT PRIMARY KEY NOT NULL,
    status       TEXT NOT NULL DEFAULT 'alive' CHECK (status IN ('alive', 'draining', 'dead')),
    started_at   TEXT NOT NULL,
    last_seen_at TEXT NOT NULL,
    version      TEXT NOT NULL,
    queues       TEXT NOT NULL,
    metadata     TEXT NOT NULL DEFAULT '{}'
) WITHOUT ROWID;
-- part: prefetch
-- A row says: of what this worker claimed at that instant, some lies in its buffer and has not been started.
-- Until it is promoted that holds for all of it; promoted, and that committed, before the first of them starts; deleted
-- once the last has started. So a crash can only err towards "started".
CREATE TABLE /*schema.*/prefetch (
    worker_id   TEXT NOT NULL,
    claimed_at  TEXT NOT NULL,
    is_promoted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (worker_id, claimed_at)
) WITHOUT ROWID;
-- part: job_attempt
-- Attempts that did not complete their job; the one that did is on the job itself.
CREATE TABLE /*schema.*/job_attempt (
    job_id           TEXT NOT NULL,
    lease_generation INTEGER NOT NULL,
    started_at       TEXT,
    ended_at         TEXT NOT NULL,
    attempt          INTEGER NOT NULL,
    worker_id        TEXT,
    outcome          TEXT NOT NULL CHECK (outcome IN ('failed', 'crashed', 'expired')),
    error            TEXT,
    PRIMARY KEY (job_id, lease_generation)
) WITHOUT ROWID;
-- part: setting
-- Operators' overrides: 'max_attempts' for all, 'max_attempts:TYPE' for one type.
CREATE TABLE /*schema.*/setting (
    name       TEXT PRIMARY KEY NOT NULL,
    value      TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    CHECK (name NOT LIKE 'max\_attempts%' ESCAPE '\'
           OR (value GLOB '[1-9]*' AND value NOT GLOB '*[^0-9]*' AND length(value) <= 5))
) WITHOUT ROWID;

-- 0001_first_schema: the job table with every column that would be costly to add later, types, workers, attempts,
--   blockers, steps, keys.
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
    waiting_for         INTEGER NOT NULL DEFAULT 0,
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
    CHECK (status <> 'blocked' OR waiting_for > 0),
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
-- part: job_expiry_idx
-- Jobs that nobody has started and that somebody wanted started by a certain time.
CREATE INDEX /*name*/job_expiry_idx ON /*schema.*/job (expires_at)
    WHERE expires_at IS NOT NULL AND attempt = 0 AND status IN ('pending', 'blocked');
-- part: job_aside_idx
-- Jobs that stand aside: few, asked for by their state, and found among any number of others.
CREATE INDEX /*name*/job_aside_idx ON /*schema.*/job (status, chain_index, seq)
    WHERE status IN ('blocked', 'dead_letter', 'cancelled') OR held = 1;
-- part: job_tenant_idx
-- The jobs of a tenant, for lists; a job without one is not in it.
CREATE INDEX /*name*/job_tenant_idx ON /*schema.*/job (tenant, seq) WHERE tenant IS NOT NULL;
-- part: job_type
-- Queue and retry policy of each type, for the reaper and for SQL users.
CREATE TABLE /*schema.*/job_type (
    name          TEXT PRIMARY KEY NOT NULL,
    queue         TEXT NOT NULL,
    priority      INTEGER NOT NULL DEFAULT 0,
    max_attempts  INTEGER NOT NULL DEFAULT 5,
    retry         TEXT NOT NULL,
    timeout_ms    INTEGER,
    expires_ms    INTEGER,
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
-- The last attempts that did not complete their job; the one that did is on the job itself.
CREATE TABLE /*schema.*/job_attempt (
    job_id           TEXT NOT NULL,
    lease_generation INTEGER NOT NULL,
    started_at       TEXT,
    ended_at         TEXT NOT NULL,
    attempt          INTEGER NOT NULL,
    worker_id        TEXT,
    outcome          TEXT NOT NULL CHECK (outcome IN ('failed', 'crashed', 'expired', 'cancelled')),
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
-- part: job_blocker
-- The chains that a job waits for, in the order given. Rows stay when they are resolved: a handler reads its blockers'
-- outputs through them, and nobody may delete what they name before that. job.waiting_for counts the unresolved ones.
CREATE TABLE /*schema.*/job_blocker (
    job_id              TEXT NOT NULL,
    blocked_by_chain_id TEXT NOT NULL,
    "index"             INTEGER NOT NULL,
    is_resolved         INTEGER NOT NULL DEFAULT 0,
    trace_context       TEXT,
    PRIMARY KEY (job_id, "index")
) WITHOUT ROWID;
-- part: job_blocker_chain_idx
-- Who waits for a chain: asked at every end of a chain, so a chain that nobody waits for must cost one look.
CREATE INDEX /*name*/job_blocker_chain_idx ON /*schema.*/job_blocker (blocked_by_chain_id);
-- part: job_blocker_open_idx
-- What the sweep walks.
CREATE INDEX /*name*/job_blocker_open_idx ON /*schema.*/job_blocker (job_id, "index") WHERE is_resolved = 0;
-- part: job_step
-- Saved parts of jobs, by the name that the handler gave them.
CREATE TABLE /*schema.*/job_step (
    job_id           TEXT NOT NULL,
    name             TEXT NOT NULL,
    result           TEXT,
    lease_generation INTEGER NOT NULL,
    saved_at         TEXT NOT NULL,
    PRIMARY KEY (job_id, name)
) WITHOUT ROWID;
-- part: job_log
-- What handlers wrote down with ctx.log.
CREATE TABLE /*schema.*/job_log (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id           TEXT NOT NULL,
    lease_generation INTEGER NOT NULL,
    logged_at        TEXT NOT NULL,
    level            TEXT NOT NULL,
    message          TEXT NOT NULL,
    fields           TEXT
);
-- part: job_log_job_idx
CREATE INDEX /*name*/job_log_job_idx ON /*schema.*/job_log (job_id, seq);
-- part: deduplication
-- Who took a key last. Whether he still holds it, his chain says: see judge_keys. So ending a chain costs no write here,
-- and a key may outlive its job.
CREATE TABLE /*schema.*/deduplication (
    type_name TEXT NOT NULL,
    key       TEXT NOT NULL,
    chain_id  TEXT NOT NULL,
    scope     TEXT NOT NULL CHECK (scope IN ('pending', 'unfinished', 'forever')),
    taken_at  TEXT NOT NULL,
    PRIMARY KEY (type_name, key)
) WITHOUT ROWID;
-- part: deduplication_chain_idx
CREATE INDEX /*name*/deduplication_chain_idx ON /*schema.*/deduplication (chain_id);
-- part: processed
-- What handlers have done once, by their own keys (ctx.once).
CREATE TABLE /*schema.*/processed (
    type_name    TEXT NOT NULL,
    key          TEXT NOT NULL,
    job_id       TEXT NOT NULL,
    processed_at TEXT NOT NULL,
    PRIMARY KEY (type_name, key)
) WITHOUT ROWID;
-- part: processed_age_idx
CREATE INDEX /*name*/processed_age_idx ON /*schema.*/processed (processed_at);
-- part: audit
-- What people did to jobs: who, when, which verb, to which chain or job, and what came of it.
CREATE TABLE /*schema.*/audit (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    at       TEXT NOT NULL,
    actor    TEXT,
    verb     TEXT NOT NULL,
    chain_id TEXT,
    job_id   TEXT,
    outcome  TEXT NOT NULL,
    detail   TEXT
);
-- part: audit_chain_idx
CREATE INDEX /*name*/audit_chain_idx ON /*schema.*/audit (chain_id);

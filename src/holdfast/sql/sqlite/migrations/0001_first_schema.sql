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
-- Words are compared one by one: for an IN of more than two SQLite builds a table whenever a statement begins, and that
-- took half of the time of an insert.
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
    limited             INTEGER NOT NULL DEFAULT 0,
    is_tail             INTEGER NOT NULL DEFAULT 1,
    is_awaited          INTEGER NOT NULL DEFAULT 0,
    is_fair             INTEGER NOT NULL DEFAULT 0,
    status              TEXT NOT NULL DEFAULT 'pending'
                        CHECK (status = 'pending' OR status = 'running' OR status = 'completed' OR status = 'blocked'
                               OR status = 'dead_letter' OR status = 'cancelled'),
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
    cancel_request      TEXT,
    deduplication_key   TEXT,
    deduplication_scope TEXT CHECK (deduplication_scope = 'unfinished' OR deduplication_scope = 'pending'
                                    OR deduplication_scope = 'forever'),
    flags               TEXT,
    partition_key       TEXT,
    ordering            TEXT CHECK (ordering IN ('fifo', 'serial')),
    concurrency_key     TEXT,
    on_blocker_failure  TEXT CHECK (on_blocker_failure = 'wait' OR on_blocker_failure = 'cancel'
                                    OR on_blocker_failure = 'run'),
    tenant              TEXT,
    headers             TEXT,
    chain_trace_context TEXT,
    trace_context       TEXT,
    CHECK ((status = 'running') = (leased_by IS NOT NULL AND leased_until IS NOT NULL)),
    CHECK (status <> 'blocked' OR waiting_for > 0),
    CHECK ((status = 'completed' OR status = 'dead_letter' OR status = 'cancelled') = (finished_at IS NOT NULL))
);
-- part: job_claim_idx
-- Where claims look: only jobs that may run. Held jobs, suspects and those that go by tenant are not in it.
CREATE INDEX /*name*/job_claim_idx ON /*schema.*/job (queue, priority, ready_at, seq)
    WHERE status = 'pending' AND held = 0 AND crash_count = 0 AND is_fair = 0;
-- part: job_fair_idx
-- Jobs of queues that are fair by tenant: where claims look, tenant by tenant.
CREATE INDEX /*name*/job_fair_idx ON /*schema.*/job (queue, tenant, priority, ready_at, seq)
    WHERE status = 'pending' AND held = 0 AND crash_count = 0 AND is_fair = 1;
-- part: job_fair_due_idx
-- The same in the order of their time: whether one is due, or when the next one will be.
CREATE INDEX /*name*/job_fair_due_idx ON /*schema.*/job (queue, ready_at, seq)
    WHERE status = 'pending' AND held = 0 AND crash_count = 0 AND is_fair = 1;
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
-- part: job_key_idx
-- The unfinished jobs of a partition key in their order: the first of them is one descent away.
CREATE INDEX /*name*/job_key_idx ON /*schema.*/job (queue, partition_key, partition_seq)
    WHERE partition_key IS NOT NULL AND status IN ('blocked', 'pending', 'running');
-- part: job_key_holder_idx
-- One holder per partition key. A holder may have a run of jobs: all but the last are held.
CREATE UNIQUE INDEX /*name*/job_key_holder_idx ON /*schema.*/job (queue, partition_key)
    WHERE partition_key IS NOT NULL AND status = 'running' AND held = 0;
-- part: job_key_run_idx
-- The others of a holder's run.
CREATE INDEX /*name*/job_key_run_idx ON /*schema.*/job (queue, partition_key, partition_seq)
    WHERE partition_key IS NOT NULL AND status = 'running' AND held = 1;
-- part: job_held_idx
-- The jobs that wait behind others of their key.
CREATE INDEX /*name*/job_held_idx ON /*schema.*/job (queue, partition_key, partition_seq)
    WHERE status = 'pending' AND held = 1 AND partition_key IS NOT NULL;
-- part: job_serial_idx
-- Of serial jobs the first in the order of claims is the next of its key.
CREATE INDEX /*name*/job_serial_idx ON /*schema.*/job (queue, partition_key, held, priority, ready_at, seq)
    WHERE status = 'pending' AND ordering = 'serial';
-- part: job_serial_plain_idx
-- The same of those without flags, which every worker takes: what nobody here takes must not hide them, however many.
CREATE INDEX /*name*/job_serial_plain_idx ON /*schema.*/job (queue, partition_key, held, priority, ready_at, seq)
    WHERE status = 'pending' AND ordering = 'serial' AND flags IS NULL;
-- part: job_limit_idx
-- The running jobs of a concurrency key, to be counted.
CREATE INDEX /*name*/job_limit_idx ON /*schema.*/job (queue, concurrency_key)
    WHERE status = 'running' AND concurrency_key IS NOT NULL;
-- part: job_limited_idx
-- The jobs that wait because of the limits of their concurrency key: they are held, and whoever makes room puts them back.
CREATE INDEX /*name*/job_limited_idx ON /*schema.*/job (queue, concurrency_key, priority, ready_at, seq)
    WHERE status = 'pending' AND limited = 1;
-- part: job_left_limit
-- One that runs leaves its concurrency key: one that waits there may be claimed.
CREATE TRIGGER /*name*/job_left_limit AFTER UPDATE OF status ON /*schema.*/job
WHEN OLD.concurrency_key IS NOT NULL AND OLD.status = 'running' AND NEW.status <> 'running'
BEGIN
    UPDATE /*schema.*/job SET held = 0, limited = 0, ready_at = max(ready_at, ifnull(NEW.finished_at, ifnull(OLD.last_attempt_at, OLD.created_at)))
    WHERE seq = (
        SELECT seq FROM /*schema.*/job AS waiting
        WHERE waiting.queue = OLD.queue AND waiting.concurrency_key = OLD.concurrency_key
          AND waiting.status = 'pending' AND waiting.limited = 1
        ORDER BY waiting.priority, waiting.ready_at, waiting.seq LIMIT 1
    );
END;
-- part: job_deleted_from_limit
CREATE TRIGGER /*name*/job_deleted_from_limit AFTER DELETE ON /*schema.*/job
WHEN OLD.concurrency_key IS NOT NULL AND OLD.status = 'running'
BEGIN
    UPDATE /*schema.*/job SET held = 0, limited = 0, ready_at = max(ready_at, ifnull(OLD.last_attempt_at, OLD.created_at))
    WHERE seq = (
        SELECT seq FROM /*schema.*/job AS waiting
        WHERE waiting.queue = OLD.queue AND waiting.concurrency_key = OLD.concurrency_key
          AND waiting.status = 'pending' AND waiting.limited = 1
        ORDER BY waiting.priority, waiting.ready_at, waiting.seq LIMIT 1
    );
END;
-- part: job_entered_key
-- The place in the key, and whether somebody stands in front. A continuation comes with the place of the job before it.
CREATE TRIGGER /*name*/job_entered_key AFTER INSERT ON /*schema.*/job
WHEN NEW.partition_key IS NOT NULL AND NEW.partition_seq IS NULL
BEGIN
    UPDATE /*schema.*/job
    SET partition_seq = NEW.seq,
        held = NEW.held OR NEW.ordering = 'fifo' AND NEW.status = 'pending' AND EXISTS (
            SELECT 1 FROM /*schema.*/job AS other
            WHERE other.queue = NEW.queue AND other.partition_key = NEW.partition_key
              AND other.status IN ('blocked', 'pending', 'running') AND other.partition_seq < NEW.seq
        )
    WHERE seq = NEW.seq;
END;
-- part: job_left_run
-- Where the last job of a run leaves its partition key before the others, one of these takes its part, so that the key
-- still has its holder in job_key_holder_idx.
-- What can be seen beforehand stands in WHEN, here and below: an UPDATE opens all indexes that it might write, also where
-- it then finds nothing, and that was half of what a completion cost.
CREATE TRIGGER /*name*/job_left_run AFTER UPDATE OF status, queue, partition_key ON /*schema.*/job
WHEN OLD.partition_key IS NOT NULL AND OLD.held = 0 AND OLD.status = 'running'
  AND (NEW.status <> 'running' OR NEW.queue <> OLD.queue OR NEW.partition_key IS NOT OLD.partition_key)
  AND EXISTS (
      SELECT 1 FROM /*schema.*/job AS other
      WHERE other.queue = OLD.queue AND other.partition_key = OLD.partition_key AND other.status = 'running' AND other.held = 1
  )
BEGIN
    UPDATE /*schema.*/job SET held = 0
    WHERE seq = (
        SELECT seq FROM /*schema.*/job AS other
        WHERE other.queue = OLD.queue AND other.partition_key = OLD.partition_key AND other.status = 'running' AND other.held = 1
        ORDER BY other.partition_seq DESC LIMIT 1
    ) AND NOT EXISTS (
        SELECT 1 FROM /*schema.*/job AS holder
        WHERE holder.queue = OLD.queue AND holder.partition_key = OLD.partition_key AND holder.status = 'running' AND holder.held = 0
    );
END;
-- part: job_left_key
-- Whatever leaves a partition key, the next one there may be claimed: the first unfinished job of the key, and the first
-- serial one, which waits for nothing but a running one; and the first of those without flags, as perhaps nobody here
-- takes the other. Due is what is due by that job's time or by now, to the end of the millisecond that 'now' has begun.
-- A trigger, so that no verb can forget it. A job that is held has others in front of it and holds up nobody, unless it
-- is one that waits for a limit. The moment is the last that the job is known to have seen: its own time may be yet to come.
-- The plus signs keep SQLite off job_aside_idx, where all jobs that wait are.
CREATE TRIGGER /*name*/job_left_key AFTER UPDATE OF status, queue, partition_key ON /*schema.*/job
WHEN OLD.partition_key IS NOT NULL AND (OLD.held = 0 OR OLD.limited = 1) AND OLD.status IN ('blocked', 'pending', 'running')
  AND (NEW.status NOT IN ('running', OLD.status)
       OR NEW.queue <> OLD.queue OR NEW.partition_key IS NOT OLD.partition_key)
  AND EXISTS (
      SELECT 1 FROM /*schema.*/job AS waiting
      WHERE waiting.queue = OLD.queue AND waiting.partition_key = OLD.partition_key AND waiting.status = 'pending' AND waiting.held = 1
  ) AND NOT EXISTS (
      SELECT 1 FROM /*schema.*/job AS other
      WHERE other.queue = OLD.queue AND other.partition_key = OLD.partition_key AND other.status = 'running' AND other.held = 1
  ) AND NOT EXISTS (
      SELECT 1 FROM /*schema.*/job AS holder
      WHERE holder.queue = OLD.queue AND holder.partition_key = OLD.partition_key AND holder.status = 'running' AND holder.held = 0
  )
BEGIN
    UPDATE /*schema.*/job SET held = 0, ready_at = max(ready_at, ifnull(NEW.finished_at, ifnull(OLD.last_attempt_at, OLD.created_at)))
    WHERE seq IN (
        SELECT * FROM (
            SELECT seq FROM /*schema.*/job AS first
            WHERE first.queue = OLD.queue AND first.partition_key = OLD.partition_key
              AND first.status IN ('blocked', 'pending', 'running')
            ORDER BY first.partition_seq LIMIT 1
        )
        UNION ALL
        SELECT * FROM (
            SELECT seq FROM /*schema.*/job AS serial
            WHERE serial.queue = OLD.queue AND serial.partition_key = OLD.partition_key
              AND serial.status = 'pending' AND serial.held = 1 AND serial.limited = 0 AND serial.ordering = 'serial'
              AND serial.ready_at <= max(ifnull(NEW.finished_at, ifnull(OLD.last_attempt_at, OLD.created_at)), strftime('%Y-%m-%dT%H:%M:%f', 'now') || '999Z')
            ORDER BY serial.priority, serial.ready_at, serial.seq LIMIT 1
        )
        UNION ALL
        SELECT * FROM (
            SELECT seq FROM /*schema.*/job AS plain
            WHERE plain.queue = OLD.queue AND plain.partition_key = OLD.partition_key
              AND plain.status = 'pending' AND plain.held = 1 AND plain.limited = 0 AND plain.ordering = 'serial' AND plain.flags IS NULL
              AND plain.ready_at <= max(ifnull(NEW.finished_at, ifnull(OLD.last_attempt_at, OLD.created_at)), strftime('%Y-%m-%dT%H:%M:%f', 'now') || '999Z')
            ORDER BY plain.priority, plain.ready_at, plain.seq LIMIT 1
        )
    ) AND +status = 'pending' AND +held = 1 AND limited = 0;
END;
-- part: job_deleted_from_key
CREATE TRIGGER /*name*/job_deleted_from_key AFTER DELETE ON /*schema.*/job
WHEN OLD.partition_key IS NOT NULL AND (OLD.held = 0 OR OLD.limited = 1) AND OLD.status IN ('blocked', 'pending', 'running')
BEGIN
    UPDATE /*schema.*/job SET held = 0
    WHERE seq = (
        SELECT seq FROM /*schema.*/job AS other
        WHERE other.queue = OLD.queue AND other.partition_key = OLD.partition_key AND other.status = 'running' AND other.held = 1
        ORDER BY other.partition_seq DESC LIMIT 1
    ) AND NOT EXISTS (
        SELECT 1 FROM /*schema.*/job AS holder
        WHERE holder.queue = OLD.queue AND holder.partition_key = OLD.partition_key AND holder.status = 'running' AND holder.held = 0
    );
    UPDATE /*schema.*/job SET held = 0, ready_at = max(ready_at, ifnull(OLD.last_attempt_at, OLD.created_at))
    WHERE seq IN (
        SELECT * FROM (
            SELECT seq FROM /*schema.*/job AS first
            WHERE first.queue = OLD.queue AND first.partition_key = OLD.partition_key
              AND first.status IN ('blocked', 'pending', 'running')
            ORDER BY first.partition_seq LIMIT 1
        )
        UNION ALL
        SELECT * FROM (
            SELECT seq FROM /*schema.*/job AS serial
            WHERE serial.queue = OLD.queue AND serial.partition_key = OLD.partition_key
              AND serial.status = 'pending' AND serial.held = 1 AND serial.limited = 0 AND serial.ordering = 'serial'
              AND serial.ready_at <= max(ifnull(OLD.last_attempt_at, OLD.created_at), strftime('%Y-%m-%dT%H:%M:%f', 'now') || '999Z')
            ORDER BY serial.priority, serial.ready_at, serial.seq LIMIT 1
        )
        UNION ALL
        SELECT * FROM (
            SELECT seq FROM /*schema.*/job AS plain
            WHERE plain.queue = OLD.queue AND plain.partition_key = OLD.partition_key
              AND plain.status = 'pending' AND plain.held = 1 AND plain.limited = 0 AND plain.ordering = 'serial' AND plain.flags IS NULL
              AND plain.ready_at <= max(ifnull(OLD.last_attempt_at, OLD.created_at), strftime('%Y-%m-%dT%H:%M:%f', 'now') || '999Z')
            ORDER BY plain.priority, plain.ready_at, plain.seq LIMIT 1
        )
    ) AND +status = 'pending' AND +held = 1 AND limited = 0 AND NOT EXISTS (
        SELECT 1 FROM /*schema.*/job AS holder
        WHERE holder.queue = OLD.queue AND holder.partition_key = OLD.partition_key AND holder.status = 'running' AND holder.held = 0
    );
END;
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
    keep          TEXT,
    registered_at TEXT NOT NULL
) WITHOUT ROWID;
-- part: worker
-- From heard_since to last_seen_at no two heartbeats were far apart.
CREATE TABLE /*schema.*/worker (
    id           TEXT PRIMARY KEY NOT NULL,
    status       TEXT NOT NULL DEFAULT 'alive' CHECK (status IN ('alive', 'draining', 'dead')),
    started_at   TEXT NOT NULL,
    last_seen_at TEXT NOT NULL,
    heard_since  TEXT NOT NULL,
    version      TEXT NOT NULL,
    queues       TEXT NOT NULL,
    metadata     TEXT NOT NULL DEFAULT '{}'
) WITHOUT ROWID;
-- part: retired
-- Workers that have left in good order, for an hour: that they were heard shows that the database could be reached.
CREATE TABLE /*schema.*/retired (
    worker_id    TEXT PRIMARY KEY NOT NULL,
    heard_since  TEXT NOT NULL,
    last_seen_at TEXT NOT NULL
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
-- A row with a name is a child, which the job itself has enqueued: resolved unless the job waits for it.
CREATE TABLE /*schema.*/job_blocker (
    job_id              TEXT NOT NULL,
    blocked_by_chain_id TEXT NOT NULL,
    "index"             INTEGER NOT NULL,
    is_resolved         INTEGER NOT NULL DEFAULT 0,
    trace_context       TEXT,
    name                TEXT,
    PRIMARY KEY (job_id, "index")
) WITHOUT ROWID;
-- part: job_blocker_chain_idx
-- Who waits for a chain: asked at every end of a chain, so a chain that nobody waits for must cost one look.
CREATE INDEX /*name*/job_blocker_chain_idx ON /*schema.*/job_blocker (blocked_by_chain_id);
-- part: job_blocker_open_idx
-- What the sweep walks.
CREATE INDEX /*name*/job_blocker_open_idx ON /*schema.*/job_blocker (job_id, "index") WHERE is_resolved = 0;
-- part: job_step
-- Saved parts of jobs, by the name that the handler gave them. Those with a kind are waits, and children. A wait is that of
-- the moment if it is the job's last step and has the job's generation: whoever claims the job ends it. ends_at: when it is
-- over in any case; signal: the name of what it waits for; without a result, that has not come.
CREATE TABLE /*schema.*/job_step (
    job_id           TEXT NOT NULL,
    name             TEXT NOT NULL,
    result           TEXT,
    lease_generation INTEGER NOT NULL,
    saved_at         TEXT NOT NULL,
    kind             TEXT CHECK (kind IN ('sleep', 'signal', 'child')),
    signal           TEXT,
    ends_at          TEXT,
    PRIMARY KEY (job_id, name)
) WITHOUT ROWID;
-- part: job_signal
-- What was said to chains and no job of theirs has taken yet, in the order of its coming.
CREATE TABLE /*schema.*/job_signal (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    chain_id TEXT NOT NULL,
    name     TEXT NOT NULL,
    payload  TEXT NOT NULL,
    sent_at  TEXT NOT NULL
);
-- part: job_signal_idx
CREATE INDEX /*name*/job_signal_idx ON /*schema.*/job_signal (chain_id, name, seq);
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
-- part: queue
-- Queues that somebody has paused or limited; all others have no row.
-- resume_at: when the pause ends by itself. rate: starts per second, burst: how many at once. key_...: of each concurrency key.
-- fair_by: jobs that are enqueued from then on and have one take turns by it.
CREATE TABLE /*schema.*/queue (
    name            TEXT PRIMARY KEY NOT NULL,
    paused_at       TEXT,
    resume_at       TEXT,
    paused_by       TEXT,
    pause_reason    TEXT,
    concurrency     INTEGER CHECK (concurrency >= 1),
    rate            REAL CHECK (rate > 0),
    burst           INTEGER CHECK (burst >= 1),
    key_concurrency INTEGER CHECK (key_concurrency >= 1),
    key_rate        REAL CHECK (key_rate > 0),
    key_burst       INTEGER CHECK (key_burst >= 1),
    fair_by         TEXT CHECK (fair_by = 'tenant'),
    changed_at      TEXT NOT NULL,
    CHECK (resume_at IS NULL OR paused_at IS NOT NULL),
    CHECK ((rate IS NULL) = (burst IS NULL)),
    CHECK ((key_rate IS NULL) = (key_burst IS NULL))
) WITHOUT ROWID;
-- part: queue_share
-- The limits of queues, dealt out to workers: a worker claims no more than its share, so no claim counts or updates anything.
-- permits: how many jobs it may run; in_use: how many it said it runs; wanted: how many it would; rate: in millionths of a
-- start per second; burst: how many starts it may save up. Written under the lock of the queue's row.
CREATE TABLE /*schema.*/queue_share (
    queue      TEXT NOT NULL,
    worker_id  TEXT NOT NULL,
    rate       INTEGER NOT NULL DEFAULT 0 CHECK (rate >= 0),
    changed_at TEXT NOT NULL,
    permits    INTEGER NOT NULL DEFAULT 0 CHECK (permits >= 0),
    in_use     INTEGER NOT NULL DEFAULT 0 CHECK (in_use >= 0),
    wanted     INTEGER NOT NULL DEFAULT 0 CHECK (wanted >= 0),
    burst      INTEGER NOT NULL DEFAULT 0 CHECK (burst >= 0),
    PRIMARY KEY (queue, worker_id)
) WITHOUT ROWID;
-- part: limited_key
-- The starts that concurrency keys of queues with a key_rate have spent. full_at: when all are saved up again; due_at: when
-- the first of those that wait may start. A key without a row has them all. In microseconds since 1970, to reckon with.
CREATE TABLE /*schema.*/limited_key (
    queue           TEXT NOT NULL,
    concurrency_key TEXT NOT NULL,
    full_at         INTEGER NOT NULL,
    due_at          INTEGER,
    PRIMARY KEY (queue, concurrency_key)
) WITHOUT ROWID;
-- part: schedule
-- What enqueues by itself, and when. next_at: the first tick that is not dealt with; only under the row's lock does it move,
-- together with what it enqueues. definition: a digest of all that was given. A retired row keeps its last tick.
CREATE TABLE /*schema.*/schedule (
    app           TEXT NOT NULL,
    name          TEXT NOT NULL,
    origin        TEXT NOT NULL CHECK (origin IN ('code', 'client')),
    definition    TEXT NOT NULL,
    cron          TEXT,
    interval_ms   INTEGER CHECK (interval_ms >= 1000),
    timezone      TEXT NOT NULL,
    catch_up      TEXT NOT NULL CHECK (catch_up IN ('skip', 'one', 'all')),
    max_age_ms    INTEGER,
    overlap       TEXT NOT NULL CHECK (overlap IN ('allow', 'skip')),
    jitter_ms     INTEGER NOT NULL CHECK (jitter_ms >= 0),
    job           TEXT NOT NULL,
    next_at       TEXT,
    last_tick_at  TEXT,
    last_fired_at TEXT,
    last_chain_id TEXT,
    paused_at     TEXT,
    paused_by     TEXT,
    pause_reason  TEXT,
    retired_at    TEXT,
    created_at    TEXT NOT NULL,
    changed_at    TEXT NOT NULL,
    PRIMARY KEY (app, name),
    CHECK ((cron IS NULL) <> (interval_ms IS NULL))
) WITHOUT ROWID;
-- part: schedule_due_idx
CREATE INDEX /*name*/schedule_due_idx ON /*schema.*/schedule (next_at) WHERE paused_at IS NULL AND retired_at IS NULL;
-- part: leader
-- Who may run the services of which a database needs one: for a term, until its lease has run out or is given up.
CREATE TABLE /*schema.*/leader (
    name         TEXT PRIMARY KEY NOT NULL,
    term         INTEGER NOT NULL,
    worker_id    TEXT,
    elected_at   TEXT NOT NULL,
    leased_until TEXT NOT NULL
) WITHOUT ROWID;
-- part: origin
-- Where the database lay when a worker last said so: a restored backup or a copy lies elsewhere. See check_origin.
CREATE TABLE /*schema.*/origin (
    is_only     INTEGER PRIMARY KEY NOT NULL CHECK (is_only = 1),
    place       TEXT NOT NULL,
    recorded_at TEXT NOT NULL,
    recorded_by TEXT
);
-- part: stats
-- What is unfinished or dead, as the leader counted it last.
CREATE TABLE /*schema.*/stats (
    queue      TEXT NOT NULL,
    type_name  TEXT NOT NULL,
    state      TEXT NOT NULL
               CHECK (state IN ('ready', 'scheduled', 'held', 'blocked', 'running', 'dead_letter')),
    jobs       INTEGER NOT NULL,
    is_capped  INTEGER NOT NULL,
    oldest_at  TEXT,
    counted_at TEXT NOT NULL,
    PRIMARY KEY (queue, type_name, state)
) WITHOUT ROWID;
-- part: throughput
-- How attempts ended, minute by minute, and after a day hour by hour: workers report what they have written.
CREATE TABLE /*schema.*/throughput (
    minute    TEXT NOT NULL,
    queue     TEXT NOT NULL,
    type_name TEXT NOT NULL,
    completed INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    PRIMARY KEY (minute, queue, type_name)
) WITHOUT ROWID;
-- part: service
-- When the services of the worker that leads were last done with a round.
CREATE TABLE /*schema.*/service (
    name         TEXT PRIMARY KEY NOT NULL,
    worker_id    TEXT NOT NULL,
    succeeded_at TEXT NOT NULL
) WITHOUT ROWID;
-- part: job_finished_idx
-- Chains that have ended, by when: what retention walks.
CREATE INDEX /*name*/job_finished_idx ON /*schema.*/job (finished_at) WHERE is_tail = 1 AND finished_at IS NOT NULL;
-- part: job_archive
-- Finished chains that were moved out of the way: a job with all its columns, as it was. archived_at comes first, so that
-- columns which are added to both tables stay in the same order.
CREATE TABLE /*schema.*/job_archive (
    archived_at         TEXT NOT NULL,
    seq                 INTEGER NOT NULL,
    id                  TEXT NOT NULL UNIQUE,
    chain_id            TEXT NOT NULL,
    lease_generation    INTEGER,
    partition_seq       INTEGER,
    duration_ms         INTEGER,
    timeout_ms          INTEGER,
    created_at          TEXT,
    scheduled_at        TEXT,
    ready_at            TEXT,
    expires_at          TEXT,
    last_attempt_at     TEXT,
    finished_at         TEXT,
    leased_until        TEXT,
    cancel_requested_at TEXT,
    chain_index         INTEGER,
    revision            INTEGER,
    priority            INTEGER,
    attempt             INTEGER,
    max_attempts        INTEGER,
    crash_count         INTEGER,
    partition_bucket    INTEGER,
    waiting_for         INTEGER,
    held                INTEGER,
    limited             INTEGER,
    is_tail             INTEGER,
    is_awaited          INTEGER,
    is_fair             INTEGER,
    status              TEXT,
    type_name           TEXT,
    chain_type_name     TEXT,
    queue               TEXT,
    input               TEXT,
    output              TEXT,
    last_attempt_error  TEXT,
    leased_by           TEXT,
    completed_by        TEXT,
    step                TEXT,
    progress            TEXT,
    cancel_request      TEXT,
    deduplication_key   TEXT,
    deduplication_scope TEXT,
    flags               TEXT,
    partition_key       TEXT,
    ordering            TEXT,
    concurrency_key     TEXT,
    on_blocker_failure  TEXT,
    tenant              TEXT,
    headers             TEXT,
    chain_trace_context TEXT,
    trace_context       TEXT
);
-- part: job_archive_age_idx
CREATE INDEX /*name*/job_archive_age_idx ON /*schema.*/job_archive (archived_at);
-- part: job_archive_chain_idx
CREATE INDEX /*name*/job_archive_chain_idx ON /*schema.*/job_archive (chain_id, chain_index) WHERE chain_index > 0;

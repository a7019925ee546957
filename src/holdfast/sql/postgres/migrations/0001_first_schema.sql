-- 0001_first_schema: the job table with every column that would be costly to add later, types, workers, attempts,
--   blockers, steps, keys.
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
-- What stays as it was enqueued comes first, what claims and completions write follows in one piece, then what few jobs
-- have: the log gets of a new version only what lies between the first and the last byte that differ (879 bytes per
-- job for claim and completion, 1,050 with the status in front).
-- The two indexes with all jobs in them are filled to two fifths at first: a job's later versions come next to the first,
-- and full pages are searched for dead entries and then split (an eighth of what a claim and a completion cost). After
-- all versions have come they are hardly larger than they would be otherwise.
CREATE TABLE /*schema.*/job (
    id                  /*id*/uuid PRIMARY KEY WITH (fillfactor = 40),
    chain_id            /*id*/uuid NOT NULL,
    seq                 bigint GENERATED ALWAYS AS IDENTITY,
    created_at          timestamptz NOT NULL DEFAULT statement_timestamp(),
    scheduled_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
    ready_at            timestamptz NOT NULL DEFAULT statement_timestamp(),
    chain_index         integer NOT NULL DEFAULT 0,
    revision            integer NOT NULL DEFAULT 0,
    priority            smallint NOT NULL DEFAULT 0,
    crash_count         smallint NOT NULL DEFAULT 0,
    waiting_for         smallint NOT NULL DEFAULT 0,
    held                boolean NOT NULL DEFAULT false,
    limited             boolean NOT NULL DEFAULT false,
    is_tail             boolean NOT NULL DEFAULT true,
    is_awaited          boolean NOT NULL DEFAULT false,
    is_fair             boolean NOT NULL DEFAULT false,
    queue               text NOT NULL,
    type_name           text NOT NULL,
    chain_type_name     text NOT NULL,
    input               json NOT NULL,
    lease_generation    bigint NOT NULL DEFAULT 0,
    attempt             smallint NOT NULL DEFAULT 0,
    status              text NOT NULL DEFAULT 'pending',
    leased_by           text,
    leased_until        timestamptz,
    last_attempt_at     timestamptz,
    output              json,
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
    cancel_request      json,
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
    -- Who runs has a lease, who has ended has an end, who is blocked waits for somebody; and no others. In one, because
    -- every statement that writes jobs reads the text of every CHECK first.
    CONSTRAINT job_status_check CHECK (
        CASE WHEN leased_by IS NOT NULL THEN status = 'running' AND leased_until IS NOT NULL AND finished_at IS NULL
             WHEN finished_at IS NOT NULL THEN status IN ('completed', 'dead_letter', 'cancelled')
             ELSE status = 'pending' OR status = 'blocked' AND waiting_for > 0 END
    )
) WITH (
    -- Every job is written three times in its life and history is pruned: vacuum early, without throttling.
    -- Room for the versions that claim and completion write: in the same page they cost 18 % less WAL, and the table
    -- becomes smaller, because it does not have to grow for them.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
-- part: job_seq_idx
-- Pages and cursors. Not UNIQUE: the identity sees to that, and every update would look up the old versions.
CREATE INDEX /*name*/job_seq_idx ON /*schema.*/job (seq) WITH (fillfactor = 40);
-- part: job_claim_idx
-- Where claims look: only jobs that may run. Held jobs, suspects and those that go by tenant are not in it.
CREATE INDEX /*name*/job_claim_idx ON /*schema.*/job (queue, priority, ready_at, seq)
    WHERE status = 'pending' AND NOT held AND crash_count = 0 AND NOT is_fair;
-- part: job_fair_idx
-- Jobs of queues that are fair by tenant: where claims look, tenant by tenant.
CREATE INDEX /*name*/job_fair_idx ON /*schema.*/job (queue, tenant, priority, ready_at, seq)
    WHERE status = 'pending' AND NOT held AND crash_count = 0 AND is_fair;
-- part: job_fair_due_idx
-- The same in the order of their time: whether one is due, or when the next one will be. Every seq is above zero: who does
-- not ask for that is not offered this index, and a claim that looks for a tenant's jobs must not walk over those of all.
CREATE INDEX /*name*/job_fair_due_idx ON /*schema.*/job (queue, ready_at, seq)
    WHERE status = 'pending' AND NOT held AND crash_count = 0 AND is_fair AND seq > 0;
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
-- part: job_expiry_idx
-- Jobs that nobody has started and that somebody wanted started by a certain time.
CREATE INDEX /*name*/job_expiry_idx ON /*schema.*/job (expires_at)
    WHERE expires_at IS NOT NULL AND attempt = 0 AND status IN ('pending', 'blocked');
-- part: job_aside_idx
-- Jobs that stand aside: few, asked for by their state, and found among any number of others.
CREATE INDEX /*name*/job_aside_idx ON /*schema.*/job (status, chain_index, seq)
    WHERE status IN ('blocked', 'dead_letter', 'cancelled') OR held;
-- part: job_tenant_idx
-- The jobs of a tenant, for lists; a job without one is not in it.
CREATE INDEX /*name*/job_tenant_idx ON /*schema.*/job (tenant, seq) WHERE tenant IS NOT NULL;
-- part: job_key_idx
-- The jobs of a partition key that wait, in their order: the first of them is one descent away. Those that run are in one
-- of the next two instead: an entry less for each claim, which is an eighth of what a claim writes.
CREATE INDEX /*name*/job_key_idx ON /*schema.*/job (queue, partition_key, partition_seq)
    WHERE partition_key IS NOT NULL AND status IN ('blocked', 'pending');
-- part: job_key_holder_idx
-- One holder per partition key, whatever claims race. A holder may have a run of jobs: all but the last are held.
CREATE UNIQUE INDEX /*name*/job_key_holder_idx ON /*schema.*/job (queue, partition_key)
    WHERE partition_key IS NOT NULL AND status = 'running' AND NOT held;
-- part: job_key_run_idx
-- The others of a holder's run. They are asked for by leased_by, which only running jobs have: asked by status, the planner
-- might go through all that wait in job_key_idx.
CREATE INDEX /*name*/job_key_run_idx ON /*schema.*/job (queue, partition_key, partition_seq)
    WHERE partition_key IS NOT NULL AND leased_by IS NOT NULL AND held;
-- part: job_held_idx
-- The jobs that wait behind others of their key.
CREATE INDEX /*name*/job_held_idx ON /*schema.*/job (queue, partition_key, partition_seq)
    WHERE status = 'pending' AND held AND partition_key IS NOT NULL;
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
    WHERE status = 'pending' AND limited;
-- part: partition_place
-- Places in partition keys. Not seq: the next job of a chain takes the place of the one before it.
CREATE SEQUENCE /*schema.*/partition_place AS bigint;
-- part: job_type
-- Queue and retry policy of each type, for the reaper and for SQL users.
CREATE TABLE /*schema.*/job_type (
    name          text PRIMARY KEY,
    queue         text NOT NULL,
    priority      smallint NOT NULL DEFAULT 0,
    max_attempts  smallint NOT NULL DEFAULT 5,
    retry         json NOT NULL,
    timeout_ms    bigint,
    expires_ms    bigint,
    keep          json,
    registered_at timestamptz NOT NULL
);
-- part: worker
-- From heard_since to last_seen_at no two heartbeats were far apart. The fill factor leaves room for them to be HOT updates.
CREATE TABLE /*schema.*/worker (
    id           text PRIMARY KEY,
    status       text NOT NULL DEFAULT 'alive' CHECK (status IN ('alive', 'draining', 'dead')),
    started_at   timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    heard_since  timestamptz NOT NULL,
    version      text NOT NULL,
    queues       json NOT NULL,
    metadata     json NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
-- part: retired
-- Workers that have left in good order, for an hour: that they were heard shows that the database could be reached.
CREATE TABLE /*schema.*/retired (
    worker_id    text PRIMARY KEY,
    heard_since  timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL
);
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
-- The last attempts that did not complete their job; the one that did is on the job itself.
CREATE TABLE /*schema.*/job_attempt (
    job_id           /*id*/uuid NOT NULL,
    lease_generation bigint NOT NULL,
    started_at       timestamptz,
    ended_at         timestamptz NOT NULL,
    attempt          smallint NOT NULL,
    worker_id        text,
    outcome          text NOT NULL CHECK (outcome IN ('failed', 'crashed', 'expired', 'cancelled')),
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
-- part: job_blocker
-- The chains that a job waits for, in the order given. Rows stay when they are resolved: a handler reads its blockers'
-- outputs through them, and nobody may delete what they name before that. job.waiting_for counts the unresolved ones.
-- A row with a name is a child, which the job itself has enqueued: resolved unless the job waits for it.
CREATE TABLE /*schema.*/job_blocker (
    job_id              /*id*/uuid NOT NULL,
    blocked_by_chain_id /*id*/uuid NOT NULL,
    index               smallint NOT NULL,
    is_resolved         boolean NOT NULL DEFAULT false,
    trace_context       text,
    name                text,
    PRIMARY KEY (job_id, index)
);
-- part: job_blocker_chain_idx
-- Who waits for a chain: asked at every end of a chain, so a chain that nobody waits for must cost one look.
CREATE INDEX /*name*/job_blocker_chain_idx ON /*schema.*/job_blocker (blocked_by_chain_id);
-- part: job_blocker_open_idx
-- What the sweep walks.
CREATE INDEX /*name*/job_blocker_open_idx ON /*schema.*/job_blocker (job_id, index) WHERE NOT is_resolved;
-- part: job_step
-- Saved parts of jobs, by the name that the handler gave them. Those with a kind are waits, and children. A wait is that of
-- the moment if it is the job's last step and has the job's generation: whoever claims the job ends it. ends_at: when it is
-- over in any case; signal: the name of what it waits for; without a result, that has not come.
CREATE TABLE /*schema.*/job_step (
    job_id           /*id*/uuid NOT NULL,
    name             text NOT NULL,
    result           json,
    lease_generation bigint NOT NULL,
    saved_at         timestamptz NOT NULL,
    kind             text CHECK (kind IN ('sleep', 'signal', 'child')),
    signal           text,
    ends_at          timestamptz,
    PRIMARY KEY (job_id, name)
);
-- part: job_signal
-- What was said to chains and no job of theirs has taken yet, in the order of its coming. Sent under the lock of the chain's
-- last job, which a job that begins to wait has as well: neither misses the other.
CREATE TABLE /*schema.*/job_signal (
    chain_id /*id*/uuid NOT NULL,
    seq      bigint GENERATED ALWAYS AS IDENTITY,
    sent_at  timestamptz NOT NULL,
    name     text NOT NULL,
    payload  json NOT NULL,
    PRIMARY KEY (chain_id, name, seq)
);
-- part: job_log
-- What handlers wrote down with ctx.log.
CREATE TABLE /*schema.*/job_log (
    seq              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id           /*id*/uuid NOT NULL,
    lease_generation bigint NOT NULL,
    logged_at        timestamptz NOT NULL,
    level            text NOT NULL,
    message          text NOT NULL,
    fields           json
);
-- part: job_log_job_idx
CREATE INDEX /*name*/job_log_job_idx ON /*schema.*/job_log (job_id, seq);
-- part: deduplication
-- Who took a key last. Whether he still holds it, his chain says: see judge_keys. So ending a chain costs no write here,
-- and a key may outlive its job.
CREATE TABLE /*schema.*/deduplication (
    type_name text NOT NULL,
    key       text NOT NULL,
    chain_id  /*id*/uuid NOT NULL,
    scope     text NOT NULL CHECK (scope IN ('pending', 'unfinished', 'forever')),
    taken_at  timestamptz NOT NULL,
    PRIMARY KEY (type_name, key)
);
-- part: deduplication_chain_idx
CREATE INDEX /*name*/deduplication_chain_idx ON /*schema.*/deduplication (chain_id);
-- part: processed
-- What handlers have done once, by their own keys (ctx.once).
CREATE TABLE /*schema.*/processed (
    type_name    text NOT NULL,
    key          text NOT NULL,
    job_id       /*id*/uuid NOT NULL,
    processed_at timestamptz NOT NULL,
    PRIMARY KEY (type_name, key)
);
-- part: processed_age_idx
CREATE INDEX /*name*/processed_age_idx ON /*schema.*/processed (processed_at);
-- part: audit
-- What people did to jobs: who, when, which verb, to which chain or job, and what came of it.
CREATE TABLE /*schema.*/audit (
    seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    actor    text,
    verb     text NOT NULL,
    chain_id /*id*/uuid,
    job_id   /*id*/uuid,
    outcome  text NOT NULL,
    detail   json
);
-- part: audit_chain_idx
CREATE INDEX /*name*/audit_chain_idx ON /*schema.*/audit (chain_id);
-- part: queue
-- Queues that somebody has paused or limited; all others have no row.
-- resume_at: when the pause ends by itself. rate: starts per second, burst: how many at once. key_...: of each concurrency key.
-- fair_by: jobs that are enqueued from then on and have one take turns by it.
CREATE TABLE /*schema.*/queue (
    name            text PRIMARY KEY,
    paused_at       timestamptz,
    resume_at       timestamptz,
    paused_by       text,
    pause_reason    text,
    concurrency     integer CHECK (concurrency >= 1),
    rate            double precision CHECK (rate > 0),
    burst           integer CHECK (burst >= 1),
    key_concurrency integer CHECK (key_concurrency >= 1),
    key_rate        double precision CHECK (key_rate > 0),
    key_burst       integer CHECK (key_burst >= 1),
    fair_by         text CHECK (fair_by = 'tenant'),
    changed_at      timestamptz NOT NULL,
    CONSTRAINT queue_resume_check CHECK (resume_at IS NULL OR paused_at IS NOT NULL),
    CONSTRAINT queue_limits_check CHECK ((rate IS NULL) = (burst IS NULL) AND (key_rate IS NULL) = (key_burst IS NULL))
);
-- part: queue_share
-- The limits of queues, dealt out to workers: a worker claims no more than its share, so no claim counts or updates anything.
-- permits: how many jobs it may run; in_use: how many it said it runs; wanted: how many it would; rate: in millionths of a
-- start per second; burst: how many starts it may save up. Written under the lock of the queue's row.
CREATE TABLE /*schema.*/queue_share (
    queue      text NOT NULL,
    worker_id  text NOT NULL,
    rate       bigint NOT NULL DEFAULT 0 CHECK (rate >= 0),
    changed_at timestamptz NOT NULL,
    permits    integer NOT NULL DEFAULT 0 CHECK (permits >= 0),
    in_use     integer NOT NULL DEFAULT 0 CHECK (in_use >= 0),
    wanted     integer NOT NULL DEFAULT 0 CHECK (wanted >= 0),
    burst      integer NOT NULL DEFAULT 0 CHECK (burst >= 0),
    PRIMARY KEY (queue, worker_id)
) WITH (fillfactor = 50);
-- part: limited_key
-- The starts that concurrency keys of queues with a key_rate have spent. full_at: when all are saved up again; due_at: when
-- the first of those that wait may start. A key without a row has them all.
CREATE TABLE /*schema.*/limited_key (
    queue           text NOT NULL,
    concurrency_key text NOT NULL,
    full_at         timestamptz NOT NULL,
    due_at          timestamptz,
    PRIMARY KEY (queue, concurrency_key)
) WITH (fillfactor = 50);
-- part: schedule
-- What enqueues by itself, and when. next_at: the first tick that is not dealt with; only under the row's lock does it move,
-- together with what it enqueues. definition: a digest of all that was given. A retired row keeps its last tick.
CREATE TABLE /*schema.*/schedule (
    app           text NOT NULL,
    name          text NOT NULL,
    origin        text NOT NULL CHECK (origin IN ('code', 'client')),
    definition    text NOT NULL,
    cron          text,
    interval_ms   bigint CHECK (interval_ms >= 1000),
    timezone      text NOT NULL,
    catch_up      text NOT NULL CHECK (catch_up IN ('skip', 'one', 'all')),
    max_age_ms    bigint,
    overlap       text NOT NULL CHECK (overlap IN ('allow', 'skip')),
    jitter_ms     bigint NOT NULL CHECK (jitter_ms >= 0),
    job           json NOT NULL,
    next_at       timestamptz,
    last_tick_at  timestamptz,
    last_fired_at timestamptz,
    last_chain_id /*id*/uuid,
    paused_at     timestamptz,
    paused_by     text,
    pause_reason  text,
    retired_at    timestamptz,
    created_at    timestamptz NOT NULL,
    changed_at    timestamptz NOT NULL,
    PRIMARY KEY (app, name),
    CONSTRAINT schedule_timing_check CHECK ((cron IS NULL) <> (interval_ms IS NULL))
) WITH (fillfactor = 50);
-- part: schedule_due_idx
CREATE INDEX /*name*/schedule_due_idx ON /*schema.*/schedule (next_at) WHERE paused_at IS NULL AND retired_at IS NULL;
-- part: leader
-- Who may run the services of which a database needs one: for a term, until its lease has run out or is given up.
CREATE TABLE /*schema.*/leader (
    name         text PRIMARY KEY,
    term         bigint NOT NULL,
    worker_id    text,
    elected_at   timestamptz NOT NULL,
    leased_until timestamptz NOT NULL
) WITH (fillfactor = 50);
-- part: origin
-- Where the database lay when a worker last said so: a restored backup or a copy lies elsewhere. See check_origin.
CREATE TABLE /*schema.*/origin (
    is_only     boolean PRIMARY KEY CHECK (is_only),
    place       text NOT NULL,
    recorded_at timestamptz NOT NULL,
    recorded_by text
);
-- part: stats
-- What is unfinished or dead, as the leader counted it last.
CREATE TABLE /*schema.*/stats (
    queue      text NOT NULL,
    type_name  text NOT NULL,
    state      text NOT NULL
               CHECK (state IN ('ready', 'scheduled', 'held', 'blocked', 'running', 'dead_letter')),
    jobs       bigint NOT NULL,
    is_capped  boolean NOT NULL,
    oldest_at  timestamptz,
    counted_at timestamptz NOT NULL,
    PRIMARY KEY (queue, type_name, state)
);
-- part: throughput
-- How attempts ended, minute by minute, and after a day hour by hour: workers report what they have written.
CREATE TABLE /*schema.*/throughput (
    minute    timestamptz NOT NULL,
    queue     text NOT NULL,
    type_name text NOT NULL,
    completed bigint NOT NULL,
    failed    bigint NOT NULL,
    PRIMARY KEY (minute, queue, type_name)
) WITH (fillfactor = 50);
-- part: service
-- When the services of the worker that leads were last done with a round.
CREATE TABLE /*schema.*/service (
    name         text PRIMARY KEY,
    worker_id    text NOT NULL,
    succeeded_at timestamptz NOT NULL
) WITH (fillfactor = 50);
-- part: waiter
-- Processes that wait for chains, by the channel they listen on. Whoever ends a chain looks here and notifies them; with
-- nobody waiting that is one look at an empty table.
CREATE TABLE /*schema.*/waiter (
    chain_id     /*id*/uuid NOT NULL,
    channel      text NOT NULL,
    announced_at timestamptz NOT NULL,
    PRIMARY KEY (chain_id, channel)
);
-- part: seen_chains
-- The chains given; refused where somebody may wait for one of them whom this transaction cannot see. Whoever comes to wait
-- for a chain that is older than his transaction marks its last job. So a snapshot in which it has no mark is too old to
-- change that job once it got one, and fails as any other conflict; one in which it has a mark may miss the second who came.
CREATE FUNCTION /*schema.*/seen_chains(chains /*id*/uuid[]) RETURNS /*id*/uuid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    awaited /*id*/uuid;
BEGIN
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        RETURN chains;
    END IF;
    SELECT chain_id INTO awaited FROM (
        SELECT chain_id FROM /*schema.*/job AS job WHERE id = ANY (chains) AND is_tail AND is_awaited
        UNION ALL
        SELECT chain_id FROM /*schema.*/job AS job
        WHERE chain_id = ANY (chains) AND chain_index > 0 AND is_tail AND is_awaited
    ) AS found
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'HF008', HINT = 'use READ COMMITTED',
            MESSAGE = 'others wait for chain ' || awaited || ', whom REPEATABLE READ and SERIALIZABLE may hide';
    END IF;
    RETURN chains;
END
$body$;
-- part: seen_chains_rights
REVOKE ALL ON FUNCTION /*schema.*/seen_chains(/*id*/uuid[]) FROM PUBLIC;
-- part: settle_dependants
-- Tell those who wait for chains that these have ended: what waits for nothing more becomes pending, what asked to be
-- cancelled is, and so on along the graph. Chains that have not ended, or that nobody waits for, are passed over.
-- What is cancelled may have held up others of its partition key: their queue has got work as well.
-- A function, because it must look with a snapshot of its own: a job that was enqueued behind a chain while this chain's
-- last statement was already running is in no snapshot of that statement.
-- locks: dependants by id; without patience, locked ones are left alone and their chains returned as unsettled.
-- ended_here: whether it is this transaction that ended them.
CREATE FUNCTION /*schema.*/settle_dependants(
    ended /*id*/uuid[], moment timestamptz, patient boolean, ended_here boolean DEFAULT true
)
RETURNS TABLE (unsettled /*id*/uuid, woken_queue text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
DECLARE
    round /*id*/uuid[] := ended;
    failed /*id*/uuid[];
    waiting /*id*/uuid[];
    locked /*id*/uuid[];
    left_queues text[];
BEGIN
    LOOP
        IF ended_here AND current_setting('transaction_isolation') <> 'read committed' THEN
            PERFORM /*schema.*/seen_chains(round);
        END IF;
        -- Inside the transaction, so that nobody is told of an end that never came to be; polls find what this misses.
        -- Asked apart, because the second statement would be planned anew each time.
        IF EXISTS (SELECT FROM /*schema.*/waiter) THEN
            PERFORM pg_notify(channel, chain_id::text) FROM /*schema.*/waiter AS waiter
            WHERE chain_id = ANY (round) AND left(channel, 1) <> '*';
            -- Who waits elsewhere is told by whoever ran this; it is no name of a queue, these are printable.
            RETURN QUERY
                SELECT NULL::/*id*/uuid, chr(1) || channel || ' chain ' || chain_id FROM /*schema.*/waiter AS waiter
                WHERE chain_id = ANY (round) AND left(channel, 1) = '*';
        END IF;
        waiting := ARRAY(
            SELECT DISTINCT job_id FROM /*schema.*/job_blocker AS job_blocker
            WHERE blocked_by_chain_id = ANY (round) AND NOT is_resolved
        );
        EXIT WHEN waiting = '{}';
        IF patient THEN
            locked := ARRAY(SELECT id FROM /*schema.*/job AS job WHERE id = ANY (waiting)
                            ORDER BY id FOR NO KEY UPDATE);
        ELSE
            locked := ARRAY(SELECT id FROM /*schema.*/job AS job WHERE id = ANY (waiting)
                            ORDER BY id FOR NO KEY UPDATE SKIP LOCKED);
            RETURN QUERY
                SELECT DISTINCT job_blocker.blocked_by_chain_id, NULL::text FROM /*schema.*/job_blocker AS job_blocker
                WHERE job_blocker.blocked_by_chain_id = ANY (round) AND NOT job_blocker.is_resolved
                  AND job_blocker.job_id = ANY (waiting) AND job_blocker.job_id <> ALL (locked);
        END IF;
        failed := ARRAY(
            SELECT chain_id FROM /*schema.*/job AS job
            WHERE id = ANY (round) AND is_tail AND status IN ('dead_letter', 'cancelled')
            UNION ALL
            SELECT chain_id FROM /*schema.*/job AS job
            WHERE chain_id = ANY (round) AND chain_index > 0 AND is_tail AND status IN ('dead_letter', 'cancelled')
        );
        RETURN QUERY
            WITH completed AS (
                SELECT chain_id FROM /*schema.*/job AS job
                WHERE id = ANY (round) AND is_tail AND status = 'completed'
                UNION ALL
                SELECT chain_id FROM /*schema.*/job AS job
                WHERE chain_id = ANY (round) AND chain_index > 0 AND is_tail AND status = 'completed'
            ),
            resolved AS (
                UPDATE /*schema.*/job_blocker AS job_blocker SET is_resolved = true
                FROM /*schema.*/job AS job
                WHERE job.id = job_blocker.job_id AND job.id = ANY (locked)
                  AND job_blocker.blocked_by_chain_id = ANY (round) AND NOT job_blocker.is_resolved
                  AND (job_blocker.blocked_by_chain_id IN (SELECT completed.chain_id FROM completed)
                       OR (job_blocker.blocked_by_chain_id = ANY (failed) AND job.on_blocker_failure = 'run'))
                RETURNING job_blocker.job_id
            ),
            counted AS (SELECT resolved.job_id, count(*) AS times FROM resolved GROUP BY resolved.job_id),
            freed AS (
                UPDATE /*schema.*/job AS job
                SET waiting_for = waiting_for - times,
                    status = CASE WHEN status = 'blocked' AND waiting_for = times THEN 'pending' ELSE status END,
                    ready_at = CASE WHEN status = 'blocked' AND waiting_for = times
                                    THEN greatest(scheduled_at, moment) ELSE ready_at END
                FROM counted
                WHERE job.id = counted.job_id
                RETURNING job.queue, job.status
            )
            SELECT DISTINCT NULL::/*id*/uuid, freed.queue FROM freed WHERE freed.status = 'pending';
        WITH cancelled AS (
            UPDATE /*schema.*/job AS job
            SET status = 'cancelled', finished_at = moment,
                last_attempt_error = json_build_object('type', 'BlockerFailed', 'message',
                    'a chain that this job waited for did not complete')
            WHERE id = ANY (locked) AND status = 'blocked' AND on_blocker_failure = 'cancel'
              AND EXISTS (
                  SELECT FROM /*schema.*/job_blocker AS job_blocker
                  WHERE job_blocker.job_id = job.id AND blocked_by_chain_id = ANY (failed) AND NOT is_resolved
              )
            RETURNING chain_id, queue, partition_key IS NOT NULL AND (NOT held OR limited) AS has_left
        )
        SELECT coalesce(array_agg(chain_id), '{}'), array_agg(DISTINCT queue) FILTER (WHERE has_left)
        INTO round, left_queues FROM cancelled;
        RETURN QUERY SELECT NULL::/*id*/uuid, left_queue FROM unnest(left_queues) AS freed (left_queue);
        ended_here := true;
    END LOOP;
END
$body$;
-- part: settle_dependants_rights
REVOKE ALL ON FUNCTION /*schema.*/settle_dependants(/*id*/uuid[], timestamptz, boolean, boolean) FROM PUBLIC;
-- part: free_keys
-- Whatever leaves a partition key, the next one there may be claimed: the first unfinished job of the key, and the first
-- serial one, which waits for nothing but a running one; should that one have flags, also the first without: perhaps
-- nobody here takes the other. Where the last job of a run leaves before the others, one of these takes its part, so that
-- the key still has its holder in job_key_holder_idx.
-- A function, because it must look with a snapshot of its own: whoever set a job aside behind the one that leaves had that
-- one locked meanwhile. A job that somebody has locked is left to the key sweeper.
CREATE FUNCTION /*schema.*/free_keys(queues text[], keys text[], moment timestamptz) RETURNS TABLE (woken_queue text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $body$
BEGIN
    RETURN QUERY
    WITH key AS MATERIALIZED (
        SELECT asked.queue, asked.partition_key, front.id AS front, front.held AND NOT front.limited AS is_front_held,
               runner.id AS runner
        FROM (SELECT DISTINCT queue, partition_key FROM unnest(queues, keys) AS sent (queue, partition_key)) AS asked
        LEFT JOIN LATERAL (
            SELECT job.id, job.held, job.limited FROM /*schema.*/job AS job
            WHERE job.queue = asked.queue AND job.partition_key = asked.partition_key
              AND job.status IN ('blocked', 'pending')
            ORDER BY job.partition_seq LIMIT 1
        ) AS front ON true
        LEFT JOIN LATERAL (
            SELECT job.id FROM /*schema.*/job AS job
            WHERE job.queue = asked.queue AND job.partition_key = asked.partition_key
              AND job.status = 'running' AND NOT job.held
            LIMIT 1
        ) AS holder ON true
        LEFT JOIN LATERAL (
            SELECT job.id FROM /*schema.*/job AS job
            WHERE job.queue = asked.queue AND job.partition_key = asked.partition_key
              AND job.leased_by IS NOT NULL AND job.held
            ORDER BY job.partition_seq DESC LIMIT 1
        ) AS runner ON true
        WHERE holder.id IS NULL
    ),
    serial AS MATERIALIZED (
        SELECT key.queue, key.partition_key, best.id, best.flags IS NOT NULL AS has_flags FROM key CROSS JOIN LATERAL (
            SELECT job.id, job.flags FROM /*schema.*/job AS job
            WHERE job.queue = key.queue AND job.partition_key = key.partition_key
              AND job.status = 'pending' AND job.held AND NOT job.limited AND job.ordering = 'serial'
              AND job.ready_at <= greatest(moment, statement_timestamp())
            ORDER BY job.priority, job.ready_at, job.seq LIMIT 1
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS best
        WHERE key.runner IS NULL AND key.front IS NOT NULL  -- where nobody waits, no serial one does
    ),
    next AS MATERIALIZED (
        SELECT coalesce(key.runner, key.front) AS id FROM key WHERE key.runner IS NOT NULL OR key.is_front_held
        UNION
        SELECT serial.id FROM serial
        UNION
        SELECT plain.id FROM serial CROSS JOIN LATERAL (
            SELECT job.id FROM /*schema.*/job AS job
            WHERE job.queue = serial.queue AND job.partition_key = serial.partition_key
              AND job.status = 'pending' AND job.held AND NOT job.limited AND job.ordering = 'serial' AND job.flags IS NULL
              AND job.ready_at <= greatest(moment, statement_timestamp())
            ORDER BY job.priority, job.ready_at, job.seq LIMIT 1
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS plain
        WHERE serial.has_flags
    ),
    freed AS (
        UPDATE /*schema.*/job AS job
        SET held = false,
            ready_at = CASE WHEN job.status = 'pending' THEN greatest(job.ready_at, moment) ELSE job.ready_at END
        WHERE job.id = ANY (ARRAY(
            -- Held or not is asked in words that no index knows: job_aside_idx has all that are held, of any key.
            SELECT job.id FROM next JOIN /*schema.*/job AS job ON job.id = next.id
            WHERE coalesce(job.held, false) AND job.status IN ('pending', 'running')
            ORDER BY job.id
            FOR NO KEY UPDATE OF job SKIP LOCKED
        ))
        RETURNING job.queue, job.status
    )
    SELECT DISTINCT freed.queue FROM freed WHERE freed.status = 'pending';
END
$body$;
-- part: left_key
-- The trigger's face of it. Its moment is the last that the job is known to have seen: its own time may be yet to come.
CREATE FUNCTION /*schema.*/left_key() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    PERFORM /*schema.*/free_keys(ARRAY[OLD.queue], ARRAY[OLD.partition_key],
        coalesce(CASE WHEN TG_OP = 'UPDATE' THEN NEW.finished_at END, OLD.last_attempt_at, OLD.created_at));
    RETURN NULL;
END
$body$;
-- part: job_left_key
-- A trigger, so that no verb can forget it. A job that is held has others in front of it and holds up nobody, unless it is
-- one that waits for a limit. Holders, who complete hundreds at once (completed_by is set), free their keys all together,
-- which costs far less. Whether a job runs or has ended is asked without words: this text too is read by every statement.
CREATE TRIGGER job_left_key AFTER UPDATE OF status, queue, partition_key ON /*schema.*/job FOR EACH ROW
    WHEN (OLD.partition_key IS NOT NULL AND NEW.completed_by IS NULL AND OLD.finished_at IS NULL
          AND (NOT OLD.held OR OLD.limited)
          AND (NEW.leased_by IS NULL AND NEW.status <> OLD.status
               OR NEW.queue <> OLD.queue OR NEW.partition_key IS DISTINCT FROM OLD.partition_key))
    EXECUTE FUNCTION /*schema.*/left_key();
-- part: job_deleted_from_key
CREATE TRIGGER job_deleted_from_key AFTER DELETE ON /*schema.*/job FOR EACH ROW
    WHEN (OLD.partition_key IS NOT NULL AND (NOT OLD.held OR OLD.limited) AND OLD.status IN ('blocked', 'pending', 'running'))
    EXECUTE FUNCTION /*schema.*/left_key();
-- part: free_limits
-- Jobs have left their concurrency keys, or others have found room there: as many that wait may be claimed.
-- A function, for the same reason as free_keys.
CREATE FUNCTION /*schema.*/free_limits(queues text[], keys text[], moment timestamptz) RETURNS TABLE (woken_queue text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $body$
BEGIN
    RETURN QUERY
    WITH freed AS (
        UPDATE /*schema.*/job AS job
        SET held = false, limited = false, ready_at = greatest(job.ready_at, moment)
        WHERE job.id = ANY (ARRAY(
            SELECT waiting.id
            FROM (
                SELECT sent.queue, sent.concurrency_key, count(*) AS places
                FROM unnest(queues, keys) AS sent (queue, concurrency_key) GROUP BY sent.queue, sent.concurrency_key
            ) AS key
            CROSS JOIN LATERAL (
                SELECT job.id FROM /*schema.*/job AS job
                WHERE job.queue = key.queue AND job.concurrency_key = key.concurrency_key
                  AND job.status = 'pending' AND job.limited
                ORDER BY job.priority, job.ready_at, job.seq LIMIT key.places
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS waiting
        ))
        RETURNING job.queue
    )
    SELECT DISTINCT freed.queue FROM freed;
END
$body$;
-- part: left_limit
-- The trigger's face of it.
CREATE FUNCTION /*schema.*/left_limit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    PERFORM /*schema.*/free_limits(ARRAY[OLD.queue], ARRAY[OLD.concurrency_key],
        coalesce(CASE WHEN TG_OP = 'UPDATE' THEN NEW.finished_at END, OLD.last_attempt_at, OLD.created_at));
    RETURN NULL;
END
$body$;
-- part: job_left_limit
-- As job_left_key: holders who complete hundreds at once make room for as many together.
CREATE TRIGGER job_left_limit AFTER UPDATE OF status ON /*schema.*/job FOR EACH ROW
    WHEN (OLD.concurrency_key IS NOT NULL AND NEW.completed_by IS NULL
          AND OLD.leased_by IS NOT NULL AND NEW.leased_by IS NULL)
    EXECUTE FUNCTION /*schema.*/left_limit();
-- part: job_deleted_from_limit
CREATE TRIGGER job_deleted_from_limit AFTER DELETE ON /*schema.*/job FOR EACH ROW
    WHEN (OLD.concurrency_key IS NOT NULL AND OLD.status = 'running')
    EXECUTE FUNCTION /*schema.*/left_limit();
-- part: admit_jobs
-- Of candidates whose concurrency keys are limited, which the caller has locked, those that may start now. The others are
-- 'aside', until somebody makes room; or 'passed', because somebody else is at their key, or is about to leave it.
-- One claim at a time decides about a key, and decides with a snapshot taken after it was the one: that is a lock of its own,
-- not a row, so that a key costs nothing while nobody claims it; one of 2,048, so that the server's table of locks holds them. At an isolation level that has no such snapshot nothing is
-- admitted. A job is set aside because of running ones only with all of these locked: whoever ends one of them afterwards
-- finds it. Where there are many it is enough to have locked some, for then one of those is the last to go.
-- Of jobs that wait for a rate the first is due when it may start; whoever claims it makes the next one due.
-- More than a whole burst cannot have been spent: what says so was written before the clock was put back, or by a claim that
-- did not know the rate of now, and counts for a burst; likewise nobody is due later than that allows.
CREATE FUNCTION /*schema.*/admit_jobs(candidates /*id*/uuid[], moment timestamptz, is_prefetch boolean)
RETURNS TABLE (id /*id*/uuid, verdict text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_column
DECLARE
    queues text[];
    keys text[];
BEGIN
    IF NOT is_prefetch AND current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        SELECT array_agg(named.queue), array_agg(named.concurrency_key) INTO queues, keys
        FROM (
            SELECT DISTINCT job.queue, job.concurrency_key FROM /*schema.*/job AS job WHERE job.id = ANY (candidates)
        ) AS named
        WHERE pg_try_advisory_xact_lock(
            hashtext('/*schema.*/limit'), hashtext(named.queue || ' ' || named.concurrency_key) & 2047
        );
    END IF;
    RETURN QUERY
    WITH key AS MATERIALIZED (
        SELECT named.queue, named.concurrency_key, known.key_rate AS rate, known.key_burst AS burst,
               least(greatest(state.full_at, moment), CASE WHEN known.key_burst / known.key_rate < 1e9
                   THEN moment + known.key_burst / known.key_rate * interval '1 second' END) AS full_at,
               state.due_at, running.jobs AS running,
               CASE WHEN known.key_concurrency IS NOT NULL THEN greatest(known.key_concurrency - running.jobs, 0) END AS places,
               CASE WHEN known.key_rate IS NOT NULL THEN floor(greatest(0, known.key_burst + 0.000001
                   - extract(epoch FROM greatest(state.full_at - moment, interval '0')) * known.key_rate)) END AS starts
        FROM unnest(queues, keys) AS named (queue, concurrency_key)
        JOIN /*schema.*/queue AS known ON known.name = named.queue
        LEFT JOIN /*schema.*/limited_key AS state
            ON known.key_rate IS NOT NULL AND state.queue = named.queue AND state.concurrency_key = named.concurrency_key
        LEFT JOIN LATERAL (
            SELECT count(*) AS jobs FROM (
                SELECT FROM /*schema.*/job AS job
                WHERE job.queue = named.queue AND job.concurrency_key = named.concurrency_key AND job.status = 'running'
                LIMIT known.key_concurrency
            ) AS runner
        ) AS running ON known.key_concurrency IS NOT NULL
    ),
    ranked AS MATERIALIZED (
        SELECT job.id, job.queue, job.concurrency_key,
               row_number() OVER (PARTITION BY job.queue, job.concurrency_key ORDER BY job.priority, job.ready_at, job.seq) AS place
        FROM /*schema.*/job AS job WHERE job.id = ANY (candidates)
    ),
    judged AS MATERIALIZED (
        SELECT ranked.id, ranked.queue, ranked.concurrency_key, ranked.place, key.due_at,
               ranked.place <= coalesce(least(key.places, key.starts), ranked.place) AS is_admitted,
               ranked.place > key.places AS lacks_place,
               ranked.place > key.starts AS lacks_start,
               ranked.place - key.starts AS behind
        FROM ranked JOIN key ON key.queue = ranked.queue AND key.concurrency_key = ranked.concurrency_key
    ),
    wall AS MATERIALIZED (
        SELECT job.id, job.queue, job.concurrency_key
        FROM /*schema.*/job AS job
        WHERE job.id = ANY (ARRAY(
            SELECT runner.id FROM key CROSS JOIN LATERAL (
                SELECT job.id FROM /*schema.*/job AS job
                WHERE job.queue = key.queue AND job.concurrency_key = key.concurrency_key AND job.status = 'running'
                LIMIT 32
            ) AS runner
            WHERE EXISTS (
                SELECT FROM judged
                WHERE judged.lacks_place AND judged.queue = key.queue AND judged.concurrency_key = key.concurrency_key
            )
        )) AND CASE WHEN job.status = 'running' THEN true END
        ORDER BY job.id
        FOR NO KEY UPDATE SKIP LOCKED
    ),
    firm AS MATERIALIZED (
        SELECT key.queue, key.concurrency_key FROM key
        WHERE least(key.running, 32) <= (
            SELECT count(*) FROM wall WHERE wall.queue = key.queue AND wall.concurrency_key = key.concurrency_key
        )
    ),
    spent AS MATERIALIZED (
        SELECT key.queue, key.concurrency_key, key.rate, key.starts - judged.admitted AS starts,
               coalesce(key.places - judged.admitted, 100) AS places,
               coalesce(key.full_at, moment) + judged.admitted / key.rate * interval '1 second' AS full_at,
               coalesce(key.full_at, moment) + (judged.admitted - (key.burst - 1)) / key.rate * interval '1 second' AS next_at,
               key.due_at
        FROM key JOIN (
            SELECT judged.queue, judged.concurrency_key, count(*) FILTER (WHERE judged.is_admitted) AS admitted
            FROM judged GROUP BY judged.queue, judged.concurrency_key
        ) AS judged ON judged.queue = key.queue AND judged.concurrency_key = key.concurrency_key
        WHERE key.rate IS NOT NULL
    ),
    -- Who is due next, where starts are all spent: of those that have just been met, else of those that wait already.
    successor AS MATERIALIZED (
        SELECT spent.queue, spent.concurrency_key, spent.next_at, coalesce(met.id, waiting.id) AS id
        FROM spent
        LEFT JOIN LATERAL (
            SELECT judged.id FROM judged
            WHERE judged.queue = spent.queue AND judged.concurrency_key = spent.concurrency_key
              AND judged.lacks_start AND NOT coalesce(judged.lacks_place, false)
            ORDER BY judged.place LIMIT 1
        ) AS met ON true
        LEFT JOIN LATERAL (
            SELECT job.id FROM /*schema.*/job AS job
            WHERE met.id IS NULL AND job.queue = spent.queue AND job.concurrency_key = spent.concurrency_key
              AND job.status = 'pending' AND job.limited
            ORDER BY job.priority, job.ready_at, job.seq LIMIT 1
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS waiting ON true
        WHERE spent.starts < 1 AND spent.places > 0
          AND (spent.due_at > moment AND spent.due_at <= spent.next_at + interval '1 millisecond') IS NOT TRUE AND coalesce(met.id, waiting.id) IS NOT NULL
    ),
    noted AS (
        INSERT INTO /*schema.*/limited_key AS known (queue, concurrency_key, full_at, due_at)
        SELECT spent.queue, spent.concurrency_key, spent.full_at, successor.next_at
        FROM spent LEFT JOIN successor
            ON successor.queue = spent.queue AND successor.concurrency_key = spent.concurrency_key
        ON CONFLICT ON CONSTRAINT limited_key_pkey DO UPDATE
        SET full_at = excluded.full_at, due_at = coalesce(excluded.due_at, known.due_at)
    ),
    -- Room for more starts than there were candidates: those that wait may come as well.
    summoned AS MATERIALIZED (
        SELECT waiting.id FROM spent CROSS JOIN LATERAL (
            SELECT job.id FROM /*schema.*/job AS job
            WHERE job.queue = spent.queue AND job.concurrency_key = spent.concurrency_key
              AND job.status = 'pending' AND job.limited
            ORDER BY job.priority, job.ready_at, job.seq LIMIT least(spent.starts, spent.places, 100)
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS waiting
        WHERE spent.starts >= 1 AND spent.places > 0
    ),
    verdict AS MATERIALIZED (
        SELECT ranked.id, CASE
            WHEN judged.is_admitted THEN 'admitted'
            WHEN judged.id IS NULL THEN 'passed'
            WHEN judged.lacks_place AND firm.queue IS NULL THEN 'passed'
            WHEN EXISTS (SELECT FROM successor WHERE successor.id = ranked.id) THEN 'due'
            ELSE 'aside' END AS verdict
        FROM ranked
        LEFT JOIN judged ON judged.id = ranked.id
        LEFT JOIN firm ON firm.queue = ranked.queue AND firm.concurrency_key = ranked.concurrency_key
    ),
    written AS (
        UPDATE /*schema.*/job AS job
        SET held = changed.held, limited = changed.held, ready_at = greatest(job.ready_at, changed.due_at)
        FROM (
            SELECT verdict.id, true AS held, NULL::timestamptz AS due_at FROM verdict WHERE verdict.verdict = 'aside'
            UNION ALL SELECT successor.id, false, successor.next_at FROM successor
            UNION ALL SELECT summoned.id, false, moment FROM summoned
        ) AS changed
        WHERE job.id = changed.id
    )
    SELECT verdict.id, CASE verdict.verdict WHEN 'due' THEN 'aside' ELSE verdict.verdict END FROM verdict;
END
$body$;
-- part: claim_keys
-- Of candidates with partition keys, which the caller has locked, claim what may run: the first unfinished job of a key, or
-- a serial one, if nothing of the key runs; and behind a first one up to run that come next, and no more than room in all.
-- The others are set aside behind the one in front, which is locked for that, and looked at again under the lock. Where it
-- cannot be locked it is about to change, and they are passed by.
-- A function, because it must look with a snapshot of its own, taken when the candidates were locked.
CREATE FUNCTION /*schema.*/claim_keys(
    candidates tid[], worker_id text, lease_ms bigint, moment timestamptz, room integer, run bigint,
    is_prefetch boolean, taste text
) RETURNS TABLE (
    id text, lease_generation bigint, type_name text, input json, attempt smallint, queue text, priority smallint,
    ready_at timestamptz, seq bigint, timeout_ms bigint, claimed_at timestamptz, crash_count smallint, chain_id text,
    chain_index integer, chain_type_name text, created_at timestamptz, scheduled_at timestamptz, max_attempts smallint,
    last_attempt_error json, tenant text, headers json, has_blockers boolean, partition_key text, partition_seq bigint,
    standing text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_column
DECLARE
    forbidden text[] := ARRAY(SELECT json_array_elements_text(taste::json -> 'forbidden'));
    limited_queues text[] := ARRAY(
        SELECT known.name FROM /*schema.*/queue AS known WHERE known.key_concurrency IS NOT NULL OR known.key_rate IS NOT NULL
    );
BEGIN
    RETURN QUERY
    WITH candidate AS MATERIALIZED (
        SELECT job.ctid AS place, job.id, job.queue, job.partition_key, job.partition_seq, job.ordering, job.priority,
               job.ready_at, job.seq, job.attempt, job.crash_count, CASE WHEN job.is_fair THEN job.tenant END AS turn, job.queue = ANY (limited_queues) AS has_limits,
               job.queue = ANY (limited_queues) AND job.concurrency_key IS NOT NULL AS is_limited
        FROM /*schema.*/job AS job WHERE job.ctid = ANY (candidates)
    ),
    key AS MATERIALIZED (
        SELECT named.queue, named.partition_key, front.id AS front, front.partition_seq AS front_seq,
               runner.id AS runner, door.id AS door
        FROM (
            SELECT queue, partition_key, bool_or(ordering = 'serial') AS has_serial FROM candidate
            GROUP BY queue, partition_key
        ) AS named
        CROSS JOIN LATERAL (
            SELECT job.id, job.partition_seq, job.held FROM /*schema.*/job AS job
            WHERE job.queue = named.queue AND job.partition_key = named.partition_key
              AND job.status IN ('blocked', 'pending')
            ORDER BY job.partition_seq LIMIT 1
        ) AS front
        LEFT JOIN LATERAL (
            (
                SELECT job.id FROM /*schema.*/job AS job
                WHERE job.queue = named.queue AND job.partition_key = named.partition_key
                  AND job.status = 'running' AND NOT job.held
                LIMIT 1
            )
            UNION ALL
            (
                SELECT job.id FROM /*schema.*/job AS job
                WHERE job.queue = named.queue AND job.partition_key = named.partition_key
                  AND job.leased_by IS NOT NULL AND job.held
                LIMIT 1
            )
            LIMIT 1
        ) AS runner ON true
        LEFT JOIN LATERAL (
            SELECT job.id FROM /*schema.*/job AS job
            WHERE named.has_serial AND job.queue = named.queue AND job.partition_key = named.partition_key
              AND job.status = 'pending' AND NOT job.held AND job.ordering = 'serial'
              AND job.ready_at <= moment AND (job.expires_at IS NULL OR job.attempt > 0 OR job.expires_at > moment)
              AND (job.flags IS NULL OR NOT job.flags && forbidden)
            ORDER BY job.priority, job.ready_at, job.seq LIMIT 1
        ) AS door ON true
    ),
    head AS MATERIALIZED (
        SELECT DISTINCT ON (candidate.queue, candidate.partition_key) candidate.*
        FROM key JOIN candidate ON candidate.queue = key.queue AND candidate.partition_key = key.partition_key
        WHERE key.runner IS NULL AND candidate.id = CASE candidate.ordering WHEN 'fifo' THEN key.front ELSE key.door END
        ORDER BY candidate.queue, candidate.partition_key, candidate.partition_seq
    ),
    admission AS MATERIALIZED (
        SELECT admitted.id, admitted.verdict
        FROM (SELECT array_agg(head.id) FILTER (WHERE head.is_limited) AS ids FROM head) AS asked,
             LATERAL /*schema.*/admit_jobs(asked.ids, moment, is_prefetch) AS admitted
        WHERE asked.ids IS NOT NULL
    ),
    started AS MATERIALIZED (
        SELECT head.* FROM head
        WHERE NOT head.is_limited OR head.id IN (SELECT admission.id FROM admission WHERE admission.verdict = 'admitted')
    ),
    next AS MATERIALIZED (
        SELECT head.queue, head.partition_key, follower.place, follower.id, follower.partition_seq, follower.is_fit
        FROM started AS head
        CROSS JOIN (SELECT least(run, greatest(room - count(*), 0) / greatest(count(*), 1)) AS each FROM started) AS share
        CROSS JOIN LATERAL (
            SELECT job.ctid AS place, job.id, job.partition_seq,
                   job.status = 'pending' AND job.attempt = 0 AND job.crash_count = 0 AND job.ordering = 'fifo'
                   AND job.ready_at <= moment AND (job.expires_at IS NULL OR job.expires_at > moment)
                   AND (job.flags IS NULL OR NOT job.flags && forbidden)
                   AND (job.concurrency_key IS NULL OR NOT head.has_limits) AS is_fit
            FROM /*schema.*/job AS job
            WHERE job.queue = head.queue AND job.partition_key = head.partition_key
              AND job.status IN ('blocked', 'pending') AND job.partition_seq > head.partition_seq
            ORDER BY job.partition_seq LIMIT share.each
        ) AS follower
        WHERE head.ordering = 'fifo' AND head.attempt = 0 AND head.crash_count = 0 AND NOT head.is_limited
    ),
    following AS MATERIALIZED (
        -- By its place, which saves a descent for each. Whoever has another one by now is looked at in its latest version, or
        -- not found and ends the run there: releases of PostgreSQL differ in that.
        SELECT job.id
        FROM next JOIN /*schema.*/job AS job ON job.ctid = next.place
        WHERE next.is_fit AND job.id = next.id AND job.status = 'pending' AND job.attempt = 0 AND job.crash_count = 0
          AND job.queue = next.queue AND job.partition_key = next.partition_key AND job.partition_seq = next.partition_seq
          AND job.ready_at <= moment
        ORDER BY job.id
        FOR NO KEY UPDATE OF job SKIP LOCKED
    ),
    broken AS MATERIALIZED (
        SELECT next.queue, next.partition_key, min(next.partition_seq) AS at FROM next
        WHERE next.id NOT IN (SELECT following.id FROM following)
        GROUP BY next.queue, next.partition_key
    ),
    taken AS MATERIALIZED (
        SELECT run.place, run.id, run.follows,
               lead(run.id) OVER (PARTITION BY run.queue, run.partition_key ORDER BY run.partition_seq) IS NULL AS is_last
        FROM (
            SELECT started.place, started.id, started.queue, started.partition_key, started.partition_seq, false AS follows
            FROM started
            UNION ALL
            SELECT next.place, next.id, next.queue, next.partition_key, next.partition_seq, true
            FROM next LEFT JOIN broken ON broken.queue = next.queue AND broken.partition_key = next.partition_key
            WHERE next.partition_seq < broken.at OR broken.at IS NULL
        ) AS run
    ),
    claimed AS (
        UPDATE /*schema.*/job AS job
        SET status = 'running',
            held = NOT taken.is_last,
            attempt = job.attempt + 1,
            lease_generation = job.lease_generation + 1,
            leased_by = worker_id,
            leased_until = moment + lease_ms * interval '1 millisecond',
            last_attempt_at = moment
        FROM taken
        WHERE job.ctid = taken.place
        RETURNING job.id::text, job.lease_generation, job.type_name, job.input, job.attempt, job.queue, job.priority,
            job.ready_at, job.seq, job.timeout_ms, CASE WHEN is_prefetch THEN moment END AS claimed_at,
            nullif(job.crash_count, 0::smallint) AS crash_count, nullif(job.chain_id, job.id)::text AS chain_id,
            nullif(job.chain_index, 0) AS chain_index, nullif(job.chain_type_name, job.type_name) AS chain_type_name,
            nullif(job.created_at, job.ready_at) AS created_at, nullif(job.scheduled_at, job.ready_at) AS scheduled_at,
            job.max_attempts, job.last_attempt_error, job.tenant, job.headers,
            CASE WHEN job.on_blocker_failure IS NOT NULL THEN true END AS has_blockers,
            job.partition_key, job.partition_seq, CASE WHEN taken.follows THEN 'follows' ELSE 'first' END AS standing
    ),
    left_over AS MATERIALIZED (
        SELECT candidate.* FROM candidate
        WHERE candidate.id NOT IN (SELECT taken.id FROM taken) AND candidate.id NOT IN (SELECT admission.id FROM admission)
    ),
    wall AS MATERIALIZED (
        SELECT job.id, job.queue, job.partition_key, job.partition_seq, job.status, job.held AND NOT job.limited AS held
        FROM key JOIN /*schema.*/job AS job ON job.id = coalesce(key.runner, key.front)
        WHERE EXISTS (
              SELECT FROM left_over
              WHERE left_over.queue = key.queue AND left_over.partition_key = key.partition_key
          )
          AND NOT EXISTS (
              SELECT FROM head WHERE head.queue = key.queue AND head.partition_key = key.partition_key
          )
          AND job.queue = key.queue AND job.partition_key = key.partition_key
          AND CASE WHEN key.runner IS NOT NULL THEN job.status = 'running'
                   ELSE job.status IN ('blocked', 'pending', 'running') AND job.partition_seq = key.front_seq END
        ORDER BY job.id
        FOR NO KEY UPDATE OF job SKIP LOCKED
    ),
    healed AS (
        UPDATE /*schema.*/job AS job SET held = false, ready_at = greatest(job.ready_at, moment)
        WHERE job.id IN (SELECT wall.id FROM wall WHERE wall.status = 'pending' AND wall.held)
    ),
    set_aside AS (
        UPDATE /*schema.*/job AS job SET held = true
        WHERE job.id IN (
            SELECT left_over.id FROM left_over
            JOIN (
                SELECT wall.queue, wall.partition_key, wall.partition_seq, wall.status FROM wall
                UNION ALL
                SELECT started.queue, started.partition_key, started.partition_seq, 'running' FROM started
                UNION ALL
                SELECT head.queue, head.partition_key, head.partition_seq, 'pending' FROM head
                WHERE head.id NOT IN (SELECT started.id FROM started)
            ) AS front ON front.queue = left_over.queue AND front.partition_key = left_over.partition_key
            WHERE front.status = 'running' OR left_over.ordering = 'fifo' AND left_over.partition_seq > front.partition_seq
        )
        RETURNING job.id
    )
    SELECT claimed.*
    FROM claimed
    UNION ALL
    SELECT NULL, count(*) FILTER (WHERE is_aside), NULL, NULL, NULL, left_behind.queue, left_behind.priority,
        max(left_behind.ready_at), max(left_behind.seq), count(*) FILTER (WHERE NOT is_aside),
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, left_behind.turn, NULL, NULL, NULL, NULL, NULL
    FROM (
        SELECT left_over.*, left_over.id IN (SELECT set_aside.id FROM set_aside) AS is_aside FROM left_over
        UNION ALL
        SELECT candidate.*, admission.verdict = 'aside' FROM candidate JOIN admission ON admission.id = candidate.id
        WHERE admission.verdict <> 'admitted'
    ) AS left_behind
    GROUP BY left_behind.queue, left_behind.priority, left_behind.turn;
END
$body$;
-- part: limit_rights
REVOKE ALL ON FUNCTION /*schema.*/free_limits(text[], text[], timestamptz) FROM PUBLIC;
-- part: left_limit_rights
REVOKE ALL ON FUNCTION /*schema.*/left_limit() FROM PUBLIC;
-- part: admit_jobs_rights
REVOKE ALL ON FUNCTION /*schema.*/admit_jobs(/*id*/uuid[], timestamptz, boolean) FROM PUBLIC;
-- part: key_rights
REVOKE ALL ON FUNCTION /*schema.*/free_keys(text[], text[], timestamptz) FROM PUBLIC;
-- part: left_key_rights
REVOKE ALL ON FUNCTION /*schema.*/left_key() FROM PUBLIC;
-- part: claim_keys_rights
REVOKE ALL ON FUNCTION /*schema.*/claim_keys(tid[], text, bigint, timestamptz, integer, bigint, boolean, text) FROM PUBLIC;
-- part: job_finished_idx
-- Chains that have ended, by when: what retention walks. Always the latest value, so an entry goes to one of the last pages;
-- with the number behind it a walk finds its place among a hundred thousand that ended at the same instant.
CREATE INDEX /*name*/job_finished_idx ON /*schema.*/job (finished_at, seq) WHERE is_tail AND finished_at IS NOT NULL;
-- part: job_archive
-- Finished chains that were moved out of the way: a job with all its columns, as it was. archived_at comes first, so that
-- columns which are added to both tables stay in the same order.
CREATE TABLE /*schema.*/job_archive (
    archived_at timestamptz NOT NULL,
    LIKE /*schema.*/job
) PARTITION BY RANGE (archived_at);
-- part: job_archive_id_idx
CREATE INDEX /*name*/job_archive_id_idx ON /*schema.*/job_archive (id);
-- part: job_archive_chain_idx
CREATE INDEX /*name*/job_archive_chain_idx ON /*schema.*/job_archive (chain_id, chain_index) WHERE chain_index > 0;
-- part: open_archive
-- A partition for this week and one for the next, by UTC, where they are missing; attached rather than created in place,
-- because that lets others read the archive meanwhile.
CREATE FUNCTION /*schema.*/open_archive(moment timestamptz) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $body$
DECLARE
    monday date;
    part text;
    opened integer := 0;
BEGIN
    FOR week IN 0..1 LOOP
        monday := date_trunc('week', moment AT TIME ZONE 'UTC')::date + 7 * week;
        part := '/*bare*/job_archive' || to_char(monday, '_YYYYMMDD');
        CONTINUE WHEN to_regclass(format('/*schema*/holdfast.%I', part)) IS NOT NULL;
        -- Whoever opens it at the same time is waited for.
        LOCK TABLE /*schema.*/job_archive IN SHARE UPDATE EXCLUSIVE MODE;
        CONTINUE WHEN to_regclass(format('/*schema*/holdfast.%I', part)) IS NOT NULL;
        EXECUTE format('CREATE TABLE /*schema*/holdfast.%I (LIKE /*schema.*/job_archive INCLUDING ALL)', part);
        EXECUTE format('ALTER TABLE /*schema.*/job_archive ATTACH PARTITION /*schema*/holdfast.%I FOR VALUES FROM (%L) TO (%L)',
                       part, monday::timestamp AT TIME ZONE 'UTC', (monday + 7)::timestamp AT TIME ZONE 'UTC');
        opened := opened + 1;
    END LOOP;
    RETURN opened;
END
$body$;
-- part: close_archive
-- Drop the partitions that hold nothing younger than the time given: nothing is deleted row by row. The lock that this
-- needs is asked for only for a moment, since whoever reads the archive would queue up behind it: another time.
-- Chains that somebody needs who has not completed move on to the week of the moment. He found them in the archive, with a
-- lock on it until he committed; so under ours all of them are seen, and nobody else can come.
CREATE FUNCTION /*schema.*/close_archive(before timestamptz, moment timestamptz) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $body$
DECLARE
    part text;
    needed /*id*/uuid[];
    closed integer := 0;
BEGIN
    FOR part IN
        SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = '/*schema.*/job_archive'::regclass
          -- In a CASE, because the planner may ask it of the parts of indexes first, whose names have no date.
          AND (CASE WHEN relname ~ '[0-9]{8}$' THEN to_date(right(relname, 8), 'YYYYMMDD') END + 7)::timestamp
              AT TIME ZONE 'UTC' <= before
        ORDER BY relname
    LOOP
        LOCK TABLE ONLY /*schema.*/job_archive IN ACCESS EXCLUSIVE MODE;
        EXECUTE format($sql$
            SELECT array_agg(DISTINCT archived.id) FROM /*schema.*/job_blocker AS job_blocker
            JOIN /*schema*/holdfast.%I AS archived ON archived.id = job_blocker.blocked_by_chain_id
            JOIN /*schema.*/job AS job ON job.id = job_blocker.job_id
            WHERE job.status <> 'completed' $sql$, part) INTO needed;
        IF needed IS NOT NULL THEN
            PERFORM /*schema.*/open_archive(moment);
            UPDATE /*schema.*/job_archive AS job_archive SET archived_at = moment
            WHERE archived_at < before AND (id = ANY (needed) OR chain_index > 0 AND chain_id = ANY (needed));
        END IF;
        EXECUTE format('DROP TABLE /*schema*/holdfast.%I', part);
        closed := closed + 1;
    END LOOP;
    RETURN closed;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$body$;
-- part: open_archive_rights
REVOKE ALL ON FUNCTION /*schema.*/open_archive(timestamptz) FROM PUBLIC;
-- part: close_archive_rights
REVOKE ALL ON FUNCTION /*schema.*/close_archive(timestamptz, timestamptz) FROM PUBLIC;
-- part: mark
-- Tells this database from its likes on other servers, where names and oids may be the same. A comment, because every
-- role may read it: whoever lends us a connection need not be allowed to read more than an enqueue does.
DO $body$
BEGIN
    EXECUTE format('COMMENT ON TABLE /*schema.*/job IS %L', 'Holdfast ' || gen_random_uuid());
END
$body$;

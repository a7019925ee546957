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
    waiting_for         smallint NOT NULL DEFAULT 0,
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
    CONSTRAINT job_blocked_check CHECK (status <> 'blocked' OR waiting_for > 0),
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
CREATE TABLE /*schema.*/job_blocker (
    job_id              /*id*/uuid NOT NULL,
    blocked_by_chain_id /*id*/uuid NOT NULL,
    index               smallint NOT NULL,
    is_resolved         boolean NOT NULL DEFAULT false,
    trace_context       text,
    PRIMARY KEY (job_id, index)
);
-- part: job_blocker_chain_idx
-- Who waits for a chain: asked at every end of a chain, so a chain that nobody waits for must cost one look.
CREATE INDEX /*name*/job_blocker_chain_idx ON /*schema.*/job_blocker (blocked_by_chain_id);
-- part: job_blocker_open_idx
-- What the sweep walks.
CREATE INDEX /*name*/job_blocker_open_idx ON /*schema.*/job_blocker (job_id, index) WHERE NOT is_resolved;
-- part: job_step
-- Saved parts of jobs, by the name that the handler gave them.
CREATE TABLE /*schema.*/job_step (
    job_id           /*id*/uuid NOT NULL,
    name             text NOT NULL,
    result           json,
    lease_generation bigint NOT NULL,
    saved_at         timestamptz NOT NULL,
    PRIMARY KEY (job_id, name)
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
-- part: waiter
-- Processes that wait for chains, by the channel they listen on. Whoever ends a chain looks here and notifies them; with
-- nobody waiting that is one look at an empty table.
CREATE TABLE /*schema.*/waiter (
    chain_id     /*id*/uuid NOT NULL,
    channel      text NOT NULL,
    announced_at timestamptz NOT NULL,
    PRIMARY KEY (chain_id, channel)
);
-- part: settle_dependants
-- Tell those who wait for chains that these have ended: what waits for nothing more becomes pending, what asked to be
-- cancelled is, and so on along the graph. Chains that have not ended, or that nobody waits for, are passed over.
-- A function, because it must look with a snapshot of its own: a job that was enqueued behind a chain while this chain's
-- last statement was already running is in no snapshot of that statement.
-- locks: dependants by id; without patience, locked ones are left alone and their chains returned as unsettled.
CREATE FUNCTION /*schema.*/settle_dependants(ended /*id*/uuid[], moment timestamptz, patient boolean)
RETURNS TABLE (unsettled /*id*/uuid, woken_queue text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
DECLARE
    round /*id*/uuid[] := ended;
    failed /*id*/uuid[];
    waiting /*id*/uuid[];
    locked /*id*/uuid[];
BEGIN
    LOOP
        -- Inside the transaction, so that nobody is told of an end that never came to be; polls find what this misses.
        -- Asked apart, because the second statement would be planned anew each time.
        IF EXISTS (SELECT FROM /*schema.*/waiter) THEN
            PERFORM pg_notify(channel, chain_id::text) FROM /*schema.*/waiter AS waiter WHERE chain_id = ANY (round);
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
            RETURNING chain_id
        )
        SELECT coalesce(array_agg(chain_id), '{}') INTO round FROM cancelled;
    END LOOP;
END
$body$;
-- part: settle_dependants_rights
REVOKE ALL ON FUNCTION /*schema.*/settle_dependants(/*id*/uuid[], timestamptz, boolean) FROM PUBLIC;
-- part: mark
-- Tells this database from its likes on other servers, where names and oids may be the same. A comment, because every
-- role may read it: whoever lends us a connection need not be allowed to read more than an enqueue does.
DO $body$
BEGIN
    EXECUTE format('COMMENT ON TABLE /*schema.*/job IS %L', 'Holdfast ' || gen_random_uuid());
END
$body$;

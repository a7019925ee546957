-- send_signal: keep a signal for a chain until one of its jobs takes it.
-- params: now timestamptz, id text, name text, payload json
-- returns: none
-- concurrency: a plain insert, under the lock of the chain's last job (lock_jobs): signals have the order in which they got
--   that lock, and whoever begins to wait at that moment comes before, and is woken, or after, and finds it.
-- locks: the inserted row, behind the job's.
INSERT INTO /*schema.*/job_signal (chain_id, name, payload, sent_at)
VALUES (CAST(:id AS /*id*/uuid), CAST(:name AS text), CAST(CAST(:payload AS text) AS json),
        /*moment*/statement_timestamp());

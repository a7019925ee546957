-- send_signal: keep a signal for a chain until one of its jobs takes it.
-- params: now timestamptz, id text, name text, payload json
-- returns: none
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
INSERT INTO /*schema.*/job_signal (chain_id, name, payload, sent_at) VALUES (:id, :name, :payload, :now);

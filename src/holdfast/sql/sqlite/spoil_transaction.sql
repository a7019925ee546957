-- spoil_transaction: make a transaction uncommittable, because what it was to be tied to is lost.
-- params: reason text
-- returns: spoilt integer (never)
-- concurrency: fails, on purpose: a statement that breaks a rule on OR ROLLBACK takes the transaction with it.
-- locks: the database's write lock.
-- part: failed
INSERT OR ROLLBACK INTO /*schema.*/job_status (status, is_terminal, is_claimable) VALUES ('completed', :reason, 0);
-- part: spoilt
SELECT 0 AS spoilt;

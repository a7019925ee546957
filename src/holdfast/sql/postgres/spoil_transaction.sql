-- spoil_transaction: make a transaction uncommittable, because what it was to be tied to is lost.
-- params: reason text
-- returns: spoilt integer (never)
-- concurrency: fails, on purpose. The server takes a COMMIT for a ROLLBACK then.
-- locks: none.
SELECT CAST(CAST(:reason AS text) AS integer) AS spoilt;

-- name_transaction: the name by which somebody can ask later what became of this transaction.
-- params: none
-- returns: transaction text (null = nobody need ask)
-- concurrency: gives the transaction its number, as its first write would.
-- locks: none.
SELECT pg_current_xact_id()::text AS transaction;

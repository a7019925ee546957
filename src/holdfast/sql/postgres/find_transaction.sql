-- find_transaction: what became of a transaction whose commit was not answered.
-- params: transaction text
-- returns: status text ('committed', 'aborted', 'in progress'; null = too long ago)
-- concurrency: read only. A server that has not noticed the loss of the connection says 'in progress'.
-- locks: none.
SELECT pg_xact_status(CAST(CAST(:transaction AS text) AS xid8)) AS status;

-- find_transaction: what became of a transaction whose commit was not answered.
-- params: transaction text
-- returns: status text ('committed', 'aborted', 'in progress'; null = too long ago)
-- concurrency: read only. Transactions have no names here.
-- locks: none.
SELECT CASE WHEN :transaction IS NULL THEN 'aborted' END AS status;

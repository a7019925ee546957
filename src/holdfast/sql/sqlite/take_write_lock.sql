-- take_write_lock: make a transaction that somebody else began a writing one.
-- only: sqlite
-- params: none
-- returns: none
-- concurrency: begun by a plain BEGIN, a transaction has no lock before its first statement; if that one reads, a later
--   write fails at once when somebody else wrote in between. Whoever writes first waits for the lock instead, as long as
--   the connection's timeout says.
-- locks: SQLite's write lock, until the transaction ends.
DELETE FROM /*schema.*/migration WHERE 0;

-- withdraw_waiters: nobody here waits for these chains any more.
-- only: postgres
-- params: channel text, chains json
-- returns: none
-- concurrency: rows of the channel's own.
-- locks: rows of the waiter table.
DELETE FROM /*schema.*/waiter AS waiter
WHERE channel = CAST(:channel AS text)
  AND chain_id = ANY (ARRAY(
      SELECT CAST(chain_id AS /*id*/uuid)
      FROM json_array_elements_text(CAST(CAST(:chains AS text) AS json)) AS asked (chain_id)
  ));

-- name_transaction: the name by which somebody can ask later what became of this transaction.
-- params: none
-- returns: transaction text (null = nobody need ask)
-- concurrency: none. A commit that fails here has not happened: there is no answer that could get lost on its way.
-- locks: none.
SELECT NULL AS "transaction";

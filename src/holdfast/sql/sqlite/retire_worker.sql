-- retire_worker: a worker leaves in good order; whatever it could not give back is reapable at once.
-- params: worker text
-- returns: none
-- concurrency: the worker's own row, as its last write.
-- locks: the database's write lock.
DELETE FROM /*schema.*/worker AS worker WHERE id = :worker;

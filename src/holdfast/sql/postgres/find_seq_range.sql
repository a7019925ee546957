-- find_seq_range: where the order of enqueue begins and ends at this moment.
-- params: none
-- returns: first bigint, last bigint (null if there are no jobs)
-- concurrency: read only. What is enqueued while a verb works its way through is behind the end.
-- locks: none.
SELECT (SELECT min(seq) FROM /*schema.*/job AS job) AS first, (SELECT max(seq) FROM /*schema.*/job AS job) AS last;

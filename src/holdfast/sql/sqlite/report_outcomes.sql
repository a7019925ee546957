-- report_outcomes: add what a worker has written to the throughput of this minute.
-- params: now timestamptz, outcomes json
-- returns: none
-- concurrency: inside a write transaction.
-- locks: the database's write lock.
INSERT INTO /*schema.*/throughput AS known (minute, queue, type_name, completed, failed)
SELECT substr(:now, 1, 16) || ':00.000000Z', json_extract(value, '$.queue'), json_extract(value, '$.type_name'),
       json_extract(value, '$.completed'), json_extract(value, '$.failed')
FROM json_each(:outcomes)
WHERE true
ON CONFLICT (minute, queue, type_name) DO UPDATE
SET completed = known.completed + excluded.completed, failed = known.failed + excluded.failed;

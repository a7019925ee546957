-- keep_stats: put new counts in the place of the old ones, sum up the throughput of hours, and drop what is too old of it.
-- params: now timestamptz, worker text, term bigint, counts json, services json, minutes_ms bigint, keep_ms bigint
-- returns: kept boolean (no row: it does not lead)
-- concurrency: fenced by (worker, term), inside a write transaction.
-- locks: the database's write lock.
-- part: leads
SELECT EXISTS (
    SELECT 1 FROM /*schema.*/leader AS office
    WHERE name = 'maintenance' AND worker_id = :worker AND term = :term AND leased_until > :now
) AS leads;
-- part: gone
DELETE FROM /*schema.*/stats AS stats WHERE :leads;
-- part: forgotten
DELETE FROM /*schema.*/throughput AS throughput
WHERE :leads
  AND minute < strftime('%Y-%m-%dT%H:%M:%f', :now, printf('-%.3f seconds', :keep_ms / 1000.0)) || '000Z';
-- part: until
SELECT strftime('%Y-%m-%dT%H', :now, printf('-%.3f seconds', :minutes_ms / 1000.0)) || ':00:00.000000Z' AS until;
-- part: hours
SELECT json_group_array(json_object('hour', hour, 'queue', queue, 'type_name', type_name, 'completed', completed,
                                    'failed', failed)) AS hours
FROM (
    SELECT substr(minute, 1, 13) || ':00:00.000000Z' AS hour, queue, type_name, sum(completed) AS completed,
           sum(failed) AS failed
    FROM /*schema.*/throughput AS throughput
    WHERE :leads AND minute < :until AND minute >= strftime('%Y-%m-%dT%H:%M:%f', :until, '-2 days') || '000Z'
    GROUP BY 1, 2, 3 HAVING count(*) > 1 OR min(minute) <> substr(min(minute), 1, 13) || ':00:00.000000Z'
);
-- part: minutes_gone
DELETE FROM /*schema.*/throughput AS throughput
WHERE minute < :until AND minute >= strftime('%Y-%m-%dT%H:%M:%f', :until, '-2 days') || '000Z'
  AND (substr(minute, 1, 13) || ':00:00.000000Z', queue, type_name) IN (
      SELECT json_extract(value, '$.hour'), json_extract(value, '$.queue'), json_extract(value, '$.type_name')
      FROM json_each(:hours)
  );
-- part: hourly
INSERT INTO /*schema.*/throughput (minute, queue, type_name, completed, failed)
SELECT json_extract(value, '$.hour'), json_extract(value, '$.queue'), json_extract(value, '$.type_name'),
       json_extract(value, '$.completed'), json_extract(value, '$.failed')
FROM json_each(:hours);
-- part: served
INSERT INTO /*schema.*/service (name, worker_id, succeeded_at)
SELECT json_extract(value, '$.name'), :worker, strftime('%Y-%m-%dT%H:%M:%f', :now,
       printf('-%.3f seconds', json_extract(value, '$.ago_ms') / 1000.0)) || '000Z'
FROM json_each(:services) WHERE :leads
ON CONFLICT (name) DO UPDATE SET worker_id = excluded.worker_id, succeeded_at = excluded.succeeded_at;
-- part: written
INSERT INTO /*schema.*/stats (queue, type_name, state, jobs, is_capped, oldest_at, counted_at)
SELECT json_extract(value, '$.queue'), json_extract(value, '$.type_name'), json_extract(value, '$.state'),
       json_extract(value, '$.jobs'), json_extract(value, '$.is_capped'),
       iif(json_extract(value, '$.waiting_ms') IS NULL, NULL, strftime('%Y-%m-%dT%H:%M:%f', :now,
           printf('-%.3f seconds', json_extract(value, '$.waiting_ms') / 1000.0)) || '000Z'),
       :now
FROM json_each(:counts) WHERE :leads;
-- part: kept
SELECT 1 AS kept WHERE :leads;

-- tell_holders: let the workers that hold jobs know that something happens to these.
-- params: jobs json
-- returns: hints bigint
-- concurrency: hints only, sent with the commit; a worker that missed one finds out when it renews its leases. Each worker
--   says in its metadata on which channel it listens.
-- locks: PostgreSQL's notification queue, until the commit.
SELECT count(pg_notify(channel, id)) AS hints
FROM (
    SELECT DISTINCT worker.id, worker.metadata ->> 'lease_channel' AS channel
    FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS asked (id)
    JOIN /*schema.*/job AS job ON job.id = CAST(asked.id AS /*id*/uuid)
    JOIN /*schema.*/worker AS worker ON worker.id = job.leased_by
    WHERE worker.metadata ->> 'lease_channel' IS NOT NULL
) AS holder;

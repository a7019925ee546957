-- tell_holders: let the workers that hold jobs know that something happens to these.
-- params: jobs json
-- returns: letter text (for a worker that listens elsewhere, to be sent after the commit; else null)
-- concurrency: hints only, sent with the commit; a worker that missed one finds out when it renews its leases. Each worker
--   says in its metadata on which channel it listens; * and what follows is an address outside the database.
-- locks: PostgreSQL's notification queue, until the commit.
SELECT CASE WHEN left(channel, 1) = '*' THEN chr(1) || channel || ' lease ' || id
            ELSE nullif(pg_notify(channel, id)::text, '') END AS letter
FROM (
    SELECT DISTINCT worker.id, worker.metadata ->> 'lease_channel' AS channel
    FROM json_array_elements_text(CAST(CAST(:jobs AS text) AS json)) AS asked (id)
    JOIN /*schema.*/job AS job ON job.id = CAST(asked.id AS /*id*/uuid)
    JOIN /*schema.*/worker AS worker ON worker.id = job.leased_by
    WHERE worker.metadata ->> 'lease_channel' IS NOT NULL
) AS holder;

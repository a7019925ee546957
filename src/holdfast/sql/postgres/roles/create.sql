-- create: the roles, where they are missing. Roles belong to the whole server; what they may do, to this database.
-- part: roles
DO $body$
BEGIN
    IF to_regrole('/*role*/producer') IS NULL THEN
        CREATE ROLE /*role*/producer NOLOGIN;
    END IF;
    IF to_regrole('/*role*/worker') IS NULL THEN
        CREATE ROLE /*role*/worker NOLOGIN;
    END IF;
    IF to_regrole('/*role*/reader') IS NULL THEN
        CREATE ROLE /*role*/reader NOLOGIN;
    END IF;
    IF to_regrole('/*role*/operator') IS NULL THEN
        CREATE ROLE /*role*/operator NOLOGIN;
    END IF;
END
$body$;

-- ids: what SQL users need to name things.
-- part: new_id
-- A UUIDv7, as the clients make them: milliseconds, their fraction, and 62 random bits.
CREATE OR REPLACE FUNCTION /*schema.*/new_id() RETURNS /*id*/uuid
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $body$
    SELECT encode(
        set_byte(
            set_byte(
                overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(micros / 1000) FROM 3) FROM 1 FOR 6),
                6, 112 | (fraction >> 8)
            ),
            7, fraction & 255
        ), 'hex'
    )::uuid::/*id*/uuid
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros) AS clock,
         LATERAL (SELECT (micros % 1000 * 4096 / 1000)::integer AS fraction) AS rest
$body$;
-- part: is_terminal
-- Whether a status is an end; null for what is no status.
CREATE OR REPLACE FUNCTION /*schema.*/is_terminal(status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $body$
    SELECT CASE WHEN status IN ('completed', 'dead_letter', 'cancelled') THEN true
                WHEN status IN ('blocked', 'pending', 'running') THEN false END
$body$;

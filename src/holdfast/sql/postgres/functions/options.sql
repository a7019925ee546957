-- options: the options of an enqueue, checked as the Python clients check them.
-- part: refuse_option
-- Always raises.
CREATE OR REPLACE FUNCTION /*schema.*/refuse_option(option text, value text, hint text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'HF006', HINT = hint,
        MESSAGE = option || ' => ' || coalesce(quote_literal(left(value, 200)), 'NULL') || ' cannot be used';
END
$body$;
-- part: checked_name
-- A name that is kept as data.
CREATE OR REPLACE FUNCTION /*schema.*/checked_name(option text, value text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    IF length(value) NOT BETWEEN 1 AND 200 OR value ~ '[\x01-\x1f\x7f-\x9f]' THEN
        PERFORM /*schema.*/refuse_option(option, value, 'give 1 to 200 printable characters');
    END IF;
    RETURN value;
END
$body$;
-- part: checked_choice
CREATE OR REPLACE FUNCTION /*schema.*/checked_choice(option text, value text, VARIADIC choices text[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    IF value <> ALL (choices) THEN
        PERFORM /*schema.*/refuse_option(option, value, 'give one of ' || array_to_string(choices, ', '));
    END IF;
    RETURN value;
END
$body$;
-- part: checked_number
CREATE OR REPLACE FUNCTION /*schema.*/checked_number(option text, value text, low integer, high integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    IF value !~ '^-?[0-9]{1,9}$' OR value::integer NOT BETWEEN low AND high THEN
        PERFORM /*schema.*/refuse_option(option, value, 'give a whole number from ' || low || ' to ' || high);
    END IF;
    RETURN value::integer;
END
$body$;
-- part: checked_instant
-- Python knows the years 1 to 9999, and no infinity.
CREATE OR REPLACE FUNCTION /*schema.*/checked_instant(option text, value text) RETURNS timestamptz
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    IF value::timestamptz < timestamptz '0001-01-01 00:00:00+00' OR value::timestamptz >= timestamptz '9999-12-31 00:00:00+00' THEN
        PERFORM /*schema.*/refuse_option(option, value, 'give a time in the years 1 to 9999');
    END IF;
    RETURN value::timestamptz;
END
$body$;
-- part: checked_duration
-- Milliseconds of an interval, or of a number of seconds; rounded up, so that a short time never becomes none.
CREATE OR REPLACE FUNCTION /*schema.*/checked_duration(option text, value jsonb) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    seconds numeric := CASE jsonb_typeof(value) WHEN 'number' THEN (value #>> '{}')::numeric
                            ELSE extract(epoch FROM (value #>> '{}')::interval) END;
BEGIN
    IF seconds NOT BETWEEN 0 AND 36600 * 86400.0 THEN
        PERFORM /*schema.*/refuse_option(option, value #>> '{}', 'give an interval from 0 to 36600 days');
    END IF;
    RETURN ceil(seconds * 1000);
END
$body$;
-- part: checked_headers
CREATE OR REPLACE FUNCTION /*schema.*/checked_headers(value jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    IF jsonb_typeof(value) <> 'object'
       OR EXISTS (SELECT FROM jsonb_each(CASE jsonb_typeof(value) WHEN 'object' THEN value ELSE '{}' END) AS header (name, content)
                  WHERE jsonb_typeof(content) <> 'string') THEN
        PERFORM /*schema.*/refuse_option('headers', value::text, 'give a JSON object whose values are text');
    ELSIF octet_length(value::text) > 16384 THEN
        PERFORM /*schema.*/refuse_option('headers', octet_length(value::text) || ' bytes', 'give no more than 16384 bytes');
    END IF;
    RETURN value;
END
$body$;
-- part: checked_blockers
CREATE OR REPLACE FUNCTION /*schema.*/checked_blockers(value jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    chains /*id*/uuid[];
BEGIN
    IF jsonb_typeof(value) <> 'array' THEN
        PERFORM /*schema.*/refuse_option('blockers', value::text, 'give an array of chain ids');
    END IF;
    -- Through the type of ids, because one id can be written in many ways.
    SELECT array_agg(id::/*id*/uuid ORDER BY place) INTO chains
    FROM jsonb_array_elements_text(value) WITH ORDINALITY AS sent (id, place);
    IF array_position(chains, NULL) IS NOT NULL THEN
        PERFORM /*schema.*/refuse_option('blockers', value::text, 'leave the NULL out');
    ELSIF cardinality(chains) > 10000 THEN
        PERFORM /*schema.*/refuse_option('blockers', cardinality(chains) || ' chains', 'give no more than 10000');
    ELSIF cardinality(chains) > (SELECT count(DISTINCT id) FROM unnest(chains) AS chain (id)) THEN
        PERFORM /*schema.*/refuse_option('blockers', value::text, 'name every chain once');
    END IF;
    RETURN to_jsonb(chains);
END
$body$;
-- part: job_document
-- One job as enqueue_jobs reads it: what is not given comes from the row of its type.
CREATE OR REPLACE FUNCTION /*schema.*/job_document(type_name text, input jsonb, options jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    kind /*schema.*/job_type%ROWTYPE;
    given jsonb := jsonb_strip_nulls(options);
    key text := given ->> 'dedup';
    unknown text;
    more jsonb;
BEGIN
    SELECT * INTO kind FROM /*schema.*/job_type AS known WHERE known.name = type_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'HF001',
            MESSAGE = 'job type ' || coalesce(quote_literal(left(type_name, 200)), 'NULL') || ' is not registered',
            HINT = 'start a worker that knows it, or call register_type; or check the spelling';
    END IF;
    IF jsonb_typeof(input) IS DISTINCT FROM 'object' THEN
        PERFORM /*schema.*/refuse_option('input', input::text, 'give a JSON object: the arguments by their names');
    END IF;
    SELECT name INTO unknown FROM jsonb_object_keys(given) AS name
    WHERE name NOT IN ('id', 'queue', 'priority', 'at', 'delay', 'expires', 'dedup', 'dedup_scope', 'dedup_window',
                       'on_conflict', 'blockers', 'on_blocker_failure', 'max_attempts', 'tenant', 'headers')
    LIMIT 1;
    IF FOUND THEN
        PERFORM /*schema.*/refuse_option(unknown, given ->> unknown, 'there is no such option');
    ELSIF given ? 'at' AND given ? 'delay' THEN
        PERFORM /*schema.*/refuse_option('delay', given ->> 'delay', 'give at or delay, not both');
    ELSIF key IS NULL AND given ?| ARRAY['dedup_scope', 'dedup_window', 'on_conflict'] THEN
        PERFORM /*schema.*/refuse_option('dedup', NULL, 'dedup_scope, dedup_window and on_conflict need a key');
    ELSIF length(key) NOT BETWEEN 1 AND 500 THEN
        PERFORM /*schema.*/refuse_option('dedup', key, 'give 1 to 500 characters');
    ELSIF /*schema.*/checked_duration('dedup_window', given -> 'dedup_window') = 0 THEN
        PERFORM /*schema.*/refuse_option('dedup_window', '0', 'leave it out for none');
    END IF;
    more := jsonb_build_object(
        'expires_at', CASE jsonb_typeof(given -> 'expires')
                      WHEN 'string' THEN /*schema.*/checked_instant('expires', given ->> 'expires') END,
        'expires_ms', CASE WHEN jsonb_typeof(given -> 'expires') IS DISTINCT FROM 'string'
                      THEN coalesce(/*schema.*/checked_duration('expires', given -> 'expires'), kind.expires_ms) END,
        'deduplication_key', key,
        'deduplication_scope', CASE WHEN key IS NOT NULL THEN coalesce(/*schema.*/checked_choice(
            'dedup_scope', given ->> 'dedup_scope', 'pending', 'unfinished', 'forever'), 'unfinished') END,
        'window_ms', /*schema.*/checked_duration('dedup_window', given -> 'dedup_window'),
        'on_conflict', CASE WHEN key IS NOT NULL THEN coalesce(/*schema.*/checked_choice(
            'on_conflict', given ->> 'on_conflict', 'keep', 'replace', 'replace_keep_schedule', 'reject'), 'keep') END,
        'blockers', nullif(/*schema.*/checked_blockers(given -> 'blockers'), '[]'),
        'on_blocker_failure', coalesce(
            /*schema.*/checked_choice('on_blocker_failure', given ->> 'on_blocker_failure', 'wait', 'cancel', 'run'),
            CASE WHEN given -> 'blockers' <> '[]' THEN 'wait' END)
    );
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'id', coalesce((/*schema.*/checked_name('id', given ->> 'id'))::/*id*/uuid, /*schema.*/new_id()),
        'type_name', type_name,
        'queue', coalesce(/*schema.*/checked_name('queue', given ->> 'queue'), kind.queue),
        'priority', coalesce(/*schema.*/checked_number('priority', given ->> 'priority', -32768, 32767), kind.priority),
        'scheduled_at', /*schema.*/checked_instant('at', given ->> 'at'),
        'delay_ms', /*schema.*/checked_duration('delay', given -> 'delay'),
        'max_attempts', /*schema.*/checked_number('max_attempts', given ->> 'max_attempts', 1, 32767),
        'timeout_ms', kind.timeout_ms,
        'tenant', /*schema.*/checked_name('tenant', given ->> 'tenant'),
        'headers', /*schema.*/checked_headers(given -> 'headers'),
        'more', nullif(jsonb_strip_nulls(more), '{}')
    )) || jsonb_build_object('input', input);
END
$body$;

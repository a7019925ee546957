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
-- A name that is kept as data. Refused is what Python does not call printable: controls, formats, private use, and all
-- spaces but one. Numbers above 127 mean other letters in other encodings than UTF8.
CREATE OR REPLACE FUNCTION /*schema.*/checked_name(option text, value text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    IF length(value) NOT BETWEEN 1 AND 200 OR value ~ '[\u0001-\u001f\u007f]'
       OR getdatabaseencoding() = 'UTF8'
          AND value ~ ('[\u0080-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e'
                       '\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb\U000110bd\U000110cd'
                       '\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001-\U000e007f'
                       '\U000f0000-\U0010fffd]') THEN
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
-- part: checked_flags
-- Each once, in the order of their letters.
CREATE OR REPLACE FUNCTION /*schema.*/checked_flags(value jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    flags text[];
BEGIN
    IF jsonb_typeof(value) <> 'array'
       OR EXISTS (SELECT FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE '[]' END) AS sent (flag)
                  WHERE jsonb_typeof(flag) <> 'string') THEN
        PERFORM /*schema.*/refuse_option('flags', value::text, 'give an array of words');
    END IF;
    flags := ARRAY(
        SELECT DISTINCT /*schema.*/checked_name('flags', flag) COLLATE "C" AS word
        FROM jsonb_array_elements_text(value) AS sent (flag) ORDER BY word
    );
    IF cardinality(flags) > 100 THEN
        PERFORM /*schema.*/refuse_option('flags', cardinality(flags) || ' flags', 'give no more than 100');
    END IF;
    RETURN nullif(to_jsonb(flags), '[]');
END
$body$;
-- part: bucket_of
-- As model/ring.py has it: the first 10 bits of the SHA-256 of the key.
CREATE OR REPLACE FUNCTION /*schema.*/bucket_of(partition_key text) RETURNS integer
LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $body$
    SELECT (get_byte(digest, 0) << 2) | (get_byte(digest, 1) >> 6)
    FROM (SELECT sha256(convert_to(partition_key, 'UTF8')) AS digest) AS hashed
$body$;
-- part: shard_of
-- As model/partition.py has it: the first 8 bytes, a number that is never negative.
CREATE OR REPLACE FUNCTION /*schema.*/shard_of(partition_key text, shards integer, by_text text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    digits text;
BEGIN
    IF shards = 1 THEN
        RETURN partition_key;
    ELSIF length(partition_key) > 195 THEN
        PERFORM /*schema.*/refuse_option('partition_key', partition_key, 'give 1 to 195 characters with shards');
    END IF;
    digits := encode(sha256(convert_to(by_text, 'UTF8')), 'hex');
    RETURN partition_key || '#' || (
        ('x' || substr(digits, 1, 8))::bit(32)::bigint::numeric * 4294967296 + ('x' || substr(digits, 9, 8))::bit(32)::bigint
    ) % shards;
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
    job_id /*id*/uuid;
    stream text;
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
                       'on_conflict', 'blockers', 'on_blocker_failure', 'partition_key', 'ordering', 'shards',
                       'concurrency_key', 'flags', 'max_attempts', 'tenant', 'headers')
    LIMIT 1;
    IF FOUND THEN
        PERFORM /*schema.*/refuse_option(unknown, given ->> unknown, 'there is no such option');
    END IF;
    SELECT name INTO unknown FROM jsonb_each(given) AS option (name, value)
    WHERE name IN ('id', 'queue', 'at', 'dedup', 'dedup_scope', 'on_conflict', 'on_blocker_failure', 'partition_key',
                   'ordering', 'concurrency_key', 'tenant')
      AND jsonb_typeof(value) <> 'string'
    LIMIT 1;
    IF FOUND THEN
        PERFORM /*schema.*/refuse_option(unknown, given ->> unknown, 'give text');
    ELSIF given ? 'at' AND given ? 'delay' THEN
        PERFORM /*schema.*/refuse_option('delay', given ->> 'delay', 'give at or delay, not both');
    ELSIF key IS NULL AND given ?| ARRAY['dedup_scope', 'dedup_window', 'on_conflict'] THEN
        PERFORM /*schema.*/refuse_option('dedup', NULL, 'dedup_scope, dedup_window and on_conflict need a key');
    ELSIF length(key) NOT BETWEEN 1 AND 500 THEN
        PERFORM /*schema.*/refuse_option('dedup', key, 'give 1 to 500 characters');
    ELSIF /*schema.*/checked_duration('dedup_window', given -> 'dedup_window') = 0 THEN
        PERFORM /*schema.*/refuse_option('dedup_window', '0', 'leave it out for none');
    ELSIF NOT given ? 'partition_key' AND given ?| ARRAY['ordering', 'shards'] THEN
        PERFORM /*schema.*/refuse_option('partition_key', NULL, 'ordering and shards need a key');
    END IF;
    job_id := coalesce((/*schema.*/checked_name('id', given ->> 'id'))::/*id*/uuid, /*schema.*/new_id());
    IF given ? 'partition_key' THEN
        stream := /*schema.*/shard_of(
            /*schema.*/checked_name('partition_key', given ->> 'partition_key'),
            coalesce(/*schema.*/checked_number('shards', given ->> 'shards', 1, 1024), 1), coalesce(key, job_id::text));
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
            CASE WHEN given -> 'blockers' <> '[]' THEN 'wait' END),
        'partition_key', stream,
        'partition_bucket', /*schema.*/bucket_of(stream),
        'ordering', coalesce(/*schema.*/checked_choice('ordering', given ->> 'ordering', 'fifo', 'serial'),
                             CASE WHEN stream IS NOT NULL THEN 'fifo' END),
        'concurrency_key', /*schema.*/checked_name('concurrency_key', given ->> 'concurrency_key'),
        'flags', /*schema.*/checked_flags(given -> 'flags')
    );
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'id', job_id,
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

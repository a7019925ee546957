-- enqueue: jobs from psql, from triggers and from other languages, in the caller's transaction.
-- part: hint_work
-- Wake workers; with the commit, because nobody here could do it afterwards.
CREATE OR REPLACE FUNCTION /*schema.*/hint_work(queues text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    PERFORM pg_notify('/*channel*/holdfast_work', queue) FROM unnest(queues) AS woken (queue);
END
$body$;
-- part: hold_blockers
-- The state of every chain that documents wait for, by id, with a hold on it; those of the same batch count as pending.
CREATE OR REPLACE FUNCTION /*schema.*/hold_blockers(documents jsonb[]) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    missing text[] := ARRAY(SELECT DISTINCT jsonb_array_elements_text(document #> '{more,blockers}')
                            FROM unnest(documents) AS sent (document));
    added text[] := ARRAY(SELECT document ->> 'id' FROM unnest(documents) AS sent (document));
    statuses jsonb := '{}';
BEGIN
    -- A chain that goes on with its next job while we look drops out of the answer for once.
    FOR look IN 1 .. 5 LOOP
        EXIT WHEN missing = '{}';
        statuses := statuses || (
            SELECT coalesce(jsonb_object_agg(held.chain_id, held.status), '{}')
            FROM /*schema.*/verb_hold_chains(chains => to_jsonb(missing)::text) AS held
        );
        statuses := (
            SELECT coalesce(jsonb_object_agg(chain_id, 'pending'), '{}')
            FROM unnest(missing) AS chain (chain_id) WHERE chain_id = ANY (added)
        ) || statuses;
        missing := ARRAY(SELECT chain_id FROM unnest(missing) AS chain (chain_id) WHERE NOT statuses ? chain_id);
    END LOOP;
    IF missing <> '{}' THEN
        RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = 'blockers: no chain has the id ' || missing[1],
            HINT = 'it may have been deleted, or be the id of a later job of a chain';
    END IF;
    RETURN statuses;
END
$body$;
-- part: refuse_cycles
-- No chain may wait for itself, over however many others of its batch.
CREATE OR REPLACE FUNCTION /*schema.*/refuse_cycles(documents jsonb[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    bad text;
BEGIN
    WITH RECURSIVE edge (waiting, chain_id) AS (
        SELECT document ->> 'id', jsonb_array_elements_text(document #> '{more,blockers}')
        FROM unnest(documents) AS sent (document)
    ),
    way (waiting, chain_id) AS (
        SELECT waiting, chain_id FROM edge
        UNION
        SELECT way.waiting, edge.chain_id FROM way JOIN edge ON edge.waiting = way.chain_id
    )
    SELECT waiting INTO bad FROM way WHERE waiting = chain_id LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'HF007', MESSAGE = 'blockers: chain ' || bad || ' would wait for itself',
            HINT = 'leave one of the blockers out';
    END IF;
    SELECT keyed ->> 'id' INTO bad
    FROM unnest(documents) AS sent (keyed), unnest(documents) AS other (document)
    WHERE keyed #> '{more,deduplication_key}' IS NOT NULL AND document #> '{more,blockers}' ? (keyed ->> 'id')
    LIMIT 1;
    IF FOUND THEN
        PERFORM /*schema.*/refuse_option('blockers', bad, 'it has a dedup key and may turn out to be another; enqueue it first');
    END IF;
END
$body$;
-- part: refuse_replaced_cycles
-- The same where older chains are put behind others, once it is known which chain each document will be. What those that
-- are replaced wait for now, they will not any more.
CREATE OR REPLACE FUNCTION /*schema.*/refuse_replaced_cycles(documents jsonb[], replaced text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_column
DECLARE
    bad text;
BEGIN
    WITH RECURSIVE edge (waiting, chain_id) AS MATERIALIZED (
        SELECT document ->> 'id', jsonb_array_elements_text(document #> '{more,blockers}')
        FROM unnest(documents) AS sent (document)
    ),
    way (waiting, chain_id) AS (
        SELECT waiting, chain_id FROM edge WHERE waiting = ANY (replaced)
        UNION
        SELECT way.waiting, onward.chain_id
        FROM way
        CROSS JOIN LATERAL (
            SELECT edge.chain_id FROM edge WHERE edge.waiting = way.chain_id
            UNION ALL
            SELECT job_blocker.blocked_by_chain_id::text
            FROM (
                SELECT job.id FROM /*schema.*/job AS job
                WHERE job.id = way.chain_id::/*id*/uuid AND CASE WHEN job.status = 'blocked' THEN true END
                UNION ALL
                SELECT job.id FROM /*schema.*/job AS job
                WHERE job.chain_id = way.chain_id::/*id*/uuid AND job.chain_index > 0
                  AND CASE WHEN job.status = 'blocked' THEN true END
            ) AS blocked
            JOIN /*schema.*/job_blocker AS job_blocker ON job_blocker.job_id = blocked.id
            WHERE NOT job_blocker.is_resolved AND way.chain_id <> ALL (replaced)
        ) AS onward
    )
    SELECT way.waiting INTO bad FROM way WHERE way.waiting = way.chain_id LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'HF007', MESSAGE = 'blockers: chain ' || bad || ' would wait for itself',
            HINT = 'leave one of the blockers out';
    END IF;
END
$body$;
-- part: add_blockers
-- Beside jobs that were just written.
CREATE OR REPLACE FUNCTION /*schema.*/add_blockers(documents jsonb[], statuses jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    edges jsonb;
BEGIN
    SELECT jsonb_agg(jsonb_build_object(
        'job_id', document ->> 'id', 'chain_id', chain_id, 'index', place - 1,
        'is_resolved', statuses ->> chain_id = 'completed'
                       OR (/*schema.*/is_terminal(statuses ->> chain_id) AND document #>> '{more,on_blocker_failure}' IS NOT DISTINCT FROM 'run')
    )) INTO edges
    FROM unnest(documents) AS sent (document),
         jsonb_array_elements_text(document #> '{more,blockers}') WITH ORDINALITY AS blocker (chain_id, place);
    IF edges IS NOT NULL THEN
        PERFORM /*schema.*/verb_add_blockers(rows => edges::text);
    END IF;
END
$body$;
-- part: key_entries
-- What take_keys and judge_keys read, of the documents at these places.
CREATE OR REPLACE FUNCTION /*schema.*/key_entries(documents jsonb[], places integer[], is_repeated boolean) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $body$
    SELECT jsonb_agg(jsonb_build_object(
        'place', place, 'type_name', documents[place] -> 'type_name', 'key', documents[place] #> '{more,deduplication_key}',
        'chain_id', documents[place] -> 'id', 'scope', documents[place] #> '{more,deduplication_scope}',
        'window_ms', documents[place] #> '{more,window_ms}', 'on_conflict', documents[place] #> '{more,on_conflict}',
        'is_repeated', is_repeated
    ))::text
    FROM unnest(places) AS chosen (place)
$body$;
-- part: refuse_other_job
-- The same job may be sent again under its id, another one may not.
CREATE OR REPLACE FUNCTION /*schema.*/refuse_other_job(document jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    other record;
BEGIN
    SELECT job.type_name, job.chain_index INTO other
    FROM /*schema.*/job AS job WHERE job.id = (document ->> 'id')::/*id*/uuid;
    IF other.type_name <> document ->> 'type_name' OR other.chain_index > 0 THEN
        PERFORM /*schema.*/refuse_option('id', document ->> 'id',
            'it belongs to a job of ' || quote_literal(other.type_name) || '; give another one');
    END IF;
END
$body$;
-- part: enqueue_documents
-- What enqueue_guarded does in Python, with exceptions for refusals: the caller's transaction forgets what came before.
-- Equal keys of one batch act as if they were sent one after the other: in rounds.
CREATE OR REPLACE FUNCTION /*schema.*/enqueue_documents(documents jsonb[], has_given_ids boolean)
RETURNS TABLE (id /*id*/uuid, status text, outcome text, superseded /*id*/uuid)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET jit = off AS $body$
#variable_conflict use_variable
DECLARE
    statuses jsonb;
    rounds integer[];
    outcomes text[] := array_fill('created'::text, ARRAY[cardinality(documents)]);
    losers text[] := array_fill(NULL::text, ARRAY[cardinality(documents)]);
    existing jsonb;
    created integer[];
    replaced integer[];
    pointed integer[];
    judged integer[];
    overdue text[];
    failed jsonb;
    kept jsonb;
    waiting integer;
    answer record;
    here integer;
    added text[] := ARRAY(SELECT document ->> 'id' FROM unnest(documents) AS sent (document));
BEGIN
    PERFORM /*schema.*/refuse_cycles(documents);
    IF has_given_ids THEN
        FOR here IN
            SELECT place FROM generate_subscripts(documents, 1) AS place
            JOIN /*schema.*/job AS job ON job.id = (documents[place] ->> 'id')::/*id*/uuid
        LOOP
            PERFORM /*schema.*/refuse_other_job(documents[here]);
            outcomes[here] := 'kept';
        END LOOP;
    END IF;
    -- Of jobs with one partition key only the first may be claimed; nobody sees any before all are there. Not where a job
    -- may turn out to be there already, and to have ended.
    IF NOT has_given_ids AND NOT EXISTS (
        SELECT FROM unnest(documents) AS sent (document) WHERE document -> 'more' ?| ARRAY['deduplication_key', 'blockers']
    ) THEN
        documents := ARRAY(
            SELECT CASE WHEN document #>> '{more,ordering}' = 'fifo' AND row_number() OVER (
                            PARTITION BY document ->> 'queue', document #>> '{more,partition_key}' ORDER BY place) > 1
                        THEN jsonb_set(document, '{more,held}', 'true') ELSE document END
            FROM unnest(documents) WITH ORDINALITY AS sent (document, place)
            ORDER BY place
        );
    END IF;
    -- The number of the round of each document that has a key.
    rounds := ARRAY(
        SELECT CASE WHEN document #> '{more,deduplication_key}' IS NOT NULL
                    THEN row_number() OVER (PARTITION BY document ->> 'type_name', document #>> '{more,deduplication_key}'
                                            ORDER BY place) END
        FROM unnest(documents) WITH ORDINALITY AS sent (document, place)
        ORDER BY place
    );
    FOR round IN 1 .. coalesce((SELECT max(turn) FROM unnest(rounds) AS chosen (turn)), 1) LOOP
        created := ARRAY(SELECT place FROM generate_subscripts(documents, 1) AS place
                         WHERE rounds[place] IS NULL AND round = 1 AND outcomes[place] = 'created');
        replaced := '{}';
        pointed := '{}';
        judged := '{}';
        overdue := '{}';
        FOR answer IN SELECT * FROM /*schema.*/verb_take_keys(keys => /*schema.*/key_entries(
            documents, ARRAY(SELECT place FROM generate_subscripts(documents, 1) AS place
                             WHERE rounds[place] = round AND outcomes[place] = 'created'),
            round = 1 AND 2 = ANY (rounds)
        )) LOOP
            IF answer.outcome = 'taken' THEN
                created := created || answer.place;
            ELSIF answer.outcome = 'judge' THEN
                judged := judged || answer.place;
            ELSE
                outcomes[answer.place] := 'kept';
                documents[answer.place] := jsonb_set(documents[answer.place], '{id}', to_jsonb(answer.chain_id));
            END IF;
        END LOOP;
        IF judged <> '{}' THEN
            -- Twice: a chain that went on while its lock was waited for is seen by the second look only.
            PERFORM count(*) FROM /*schema.*/verb_judge_keys(keys => /*schema.*/key_entries(documents, judged, false));
        END IF;
        FOR answer IN SELECT * FROM /*schema.*/verb_judge_keys(keys => /*schema.*/key_entries(documents, judged, false)) LOOP
            IF NOT answer.is_holding THEN
                overdue := overdue || answer.overdue_id;
                pointed := pointed || answer.place;
                created := created || answer.place;
                CONTINUE;
            END IF;
            CASE documents[answer.place] #>> '{more,on_conflict}'
            WHEN 'keep' THEN
                outcomes[answer.place] := 'kept';
                documents[answer.place] := jsonb_set(documents[answer.place], '{id}', to_jsonb(answer.chain_id));
            WHEN 'reject' THEN
                IF answer.chain_id = ANY (added) THEN
                    RAISE EXCEPTION USING ERRCODE = 'HF005', HINT = 'leave one out, or use on_conflict => ''keep'' or ''replace''',
                        MESSAGE = 'dedup => ' || quote_literal(documents[answer.place] #>> '{more,deduplication_key}')
                                  || ' is twice in this batch';
                END IF;
                RAISE EXCEPTION USING ERRCODE = 'HF005', DETAIL = answer.chain_id,
                    MESSAGE = 'dedup => ' || quote_literal(documents[answer.place] #>> '{more,deduplication_key}')
                              || ': chain ' || answer.chain_id || ' of ' || quote_literal(documents[answer.place] ->> 'type_name') || ' holds this key',
                    HINT = 'use on_conflict => ''keep'' to get that chain, or ''replace'' to give it the new arguments';
            ELSE
                pointed := pointed || answer.place;
                IF answer.is_replaceable THEN
                    outcomes[answer.place] := 'replaced';
                    documents[answer.place] := jsonb_set(documents[answer.place], '{id}', to_jsonb(answer.chain_id));
                    replaced := replaced || answer.place;
                ELSE
                    losers[answer.place] := answer.chain_id;
                    created := created || answer.place;
                END IF;
            END CASE;
        END LOOP;
        overdue := array_remove(overdue, NULL);
        IF round = 1 THEN
            -- After the keys, as the verbs of people lock them, and only for what will be written. Who comes later in the
            -- batch with the same key has no blockers.
            statuses := /*schema.*/hold_blockers(
                ARRAY(SELECT documents[place] FROM unnest(created || replaced) AS chosen (place)));
            IF overdue <> '{}' THEN
                statuses := statuses || (
                    SELECT coalesce(jsonb_object_agg(job.chain_id, 'cancelled'), '{}') FROM /*schema.*/job AS job
                    WHERE job.id = ANY (ARRAY(SELECT unnest(overdue)::/*id*/uuid)) AND statuses ? job.chain_id::text
                );
            END IF;
            FOREACH here IN ARRAY created || replaced LOOP
                SELECT count(*) INTO waiting
                FROM jsonb_array_elements_text(documents[here] #> '{more,blockers}') AS blocker (chain_id)
                WHERE statuses ->> chain_id <> 'completed'
                  AND NOT (/*schema.*/is_terminal(statuses ->> chain_id)
                           AND documents[here] #>> '{more,on_blocker_failure}' IS NOT DISTINCT FROM 'run');
                IF waiting > 0 THEN
                    documents[here] := jsonb_set(documents[here], '{more,waiting_for}', to_jsonb(waiting));
                END IF;
            END LOOP;
        END IF;
        PERFORM /*schema.*/refuse_replaced_cycles(
            ARRAY(SELECT documents[place] FROM unnest(created || replaced) AS chosen (place)),
            ARRAY(SELECT documents[place] ->> 'id' FROM unnest(replaced) AS chosen (place)));
        IF overdue <> '{}' THEN
            PERFORM /*schema.*/hint_work(ARRAY(
                SELECT freed.queue FROM /*schema.*/verb_expire_holders(jobs => to_jsonb(overdue)::text) AS freed
            ));
            PERFORM /*schema.*/hint_work(ARRAY(
                SELECT settled.woken_queue FROM /*schema.*/verb_settle_chains(chains => (
                    SELECT jsonb_agg(job.chain_id) FROM /*schema.*/job AS job WHERE job.id = ANY (overdue::/*id*/uuid[]))::text,
                    patient => false) AS settled
                WHERE settled.woken_queue IS NOT NULL
            ));
        END IF;
        IF pointed <> '{}' THEN
            PERFORM /*schema.*/verb_point_keys(keys => /*schema.*/key_entries(documents, pointed, false));
        END IF;
        IF replaced <> '{}' THEN
            PERFORM /*schema.*/hint_work(ARRAY(
                SELECT written.left_queue FROM /*schema.*/verb_replace_jobs(jobs => (
                    SELECT jsonb_agg(documents[place]) FROM unnest(replaced) AS chosen (place))::text) AS written
                WHERE written.left_queue IS NOT NULL
            ));
            PERFORM /*schema.*/add_blockers(ARRAY(SELECT documents[place] FROM unnest(replaced) AS chosen (place)), statuses);
            PERFORM /*schema.*/hint_work(ARRAY(SELECT documents[place] ->> 'queue' FROM unnest(replaced) AS chosen (place)));
        END IF;
        IF created <> '{}' THEN
            SELECT written.existing::jsonb INTO existing FROM /*schema.*/verb_enqueue_jobs(
                jobs => (SELECT jsonb_agg(documents[place] ORDER BY place) FROM unnest(created) AS chosen (place))::text,
                has_given_ids => has_given_ids, channel => '/*channel*/holdfast_work') AS written;
            FOR here IN SELECT place FROM unnest(created) AS chosen (place) WHERE existing ? (documents[place] ->> 'id') LOOP
                PERFORM /*schema.*/refuse_other_job(documents[here]);
                outcomes[here] := 'kept';
            END LOOP;
            PERFORM /*schema.*/add_blockers(ARRAY(
                SELECT documents[place] FROM unnest(created) AS chosen (place) WHERE NOT existing ? (documents[place] ->> 'id')
            ), statuses);
        END IF;
    END LOOP;
    -- What wanted to be cancelled with a chain that had failed before is told now.
    SELECT jsonb_agg(DISTINCT chain_id) INTO failed
    FROM unnest(documents) AS sent (document), jsonb_array_elements_text(document #> '{more,blockers}') AS blocker (chain_id)
    WHERE document #>> '{more,on_blocker_failure}' = 'cancel' AND statuses ->> chain_id IN ('dead_letter', 'cancelled');
    IF failed IS NOT NULL THEN
        PERFORM /*schema.*/hint_work(ARRAY(
            SELECT settled.woken_queue
            FROM /*schema.*/verb_settle_chains(chains => failed::text, patient => true, ended_here => false) AS settled
            WHERE settled.woken_queue IS NOT NULL
        ));
    END IF;
    kept := (
        SELECT coalesce(jsonb_object_agg(found.chain_id, found.status), '{}')
        FROM /*schema.*/verb_chain_statuses(chains => (
            SELECT coalesce(jsonb_agg(documents[place] -> 'id'), '[]')
            FROM generate_subscripts(documents, 1) AS place WHERE outcomes[place] = 'kept')::text) AS found
    );
    RETURN QUERY
        SELECT (documents[place] ->> 'id')::/*id*/uuid,
               CASE WHEN outcomes[place] = 'kept'
                    THEN coalesce(kept ->> (documents[place] ->> 'id'), (
                        SELECT job.status FROM /*schema.*/job AS job WHERE job.id = (documents[place] ->> 'id')::/*id*/uuid
                    ), 'completed')
                    WHEN documents[place] #> '{more,waiting_for}' IS NULL THEN 'pending' ELSE 'blocked' END,
               outcomes[place], losers[place]::/*id*/uuid
        FROM generate_subscripts(documents, 1) AS place
        ORDER BY place;
END
$body$;
-- part: enqueue
-- One job; returns the id of its chain: a new one, or the one that holds the key.
CREATE OR REPLACE FUNCTION /*schema.*/enqueue(
    type_name text,
    input jsonb DEFAULT '{}',
    id /*id*/uuid DEFAULT NULL,
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL,
    expires timestamptz DEFAULT NULL,
    dedup text DEFAULT NULL,
    dedup_scope text DEFAULT NULL,
    dedup_window interval DEFAULT NULL,
    on_conflict text DEFAULT NULL,
    blockers /*id*/uuid[] DEFAULT NULL,
    on_blocker_failure text DEFAULT NULL,
    partition_key text DEFAULT NULL,
    ordering text DEFAULT NULL,
    shards integer DEFAULT NULL,
    concurrency_key text DEFAULT NULL,
    flags text[] DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    tenant text DEFAULT NULL,
    headers jsonb DEFAULT NULL
) RETURNS /*id*/uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    options jsonb := jsonb_build_object(
        'id', id, 'queue', queue, 'priority', priority, 'at', at, 'delay', extract(epoch FROM delay), 'expires', expires,
        'dedup', dedup, 'dedup_scope', dedup_scope, 'dedup_window', extract(epoch FROM dedup_window),
        'on_conflict', on_conflict, 'blockers', blockers, 'on_blocker_failure', on_blocker_failure,
        'partition_key', partition_key, 'ordering', ordering, 'shards', shards, 'concurrency_key', concurrency_key,
        'flags', flags, 'max_attempts', max_attempts, 'tenant', tenant, 'headers', headers
    );
BEGIN
    RETURN (SELECT written.id FROM /*schema.*/enqueue_documents(
        ARRAY[/*schema.*/job_document(type_name, input, options)], id IS NOT NULL) AS written);
END
$body$;
-- part: enqueue_many
-- Jobs in order, all or none: objects with type_name, input and the options of enqueue by their names.
CREATE OR REPLACE FUNCTION /*schema.*/enqueue_many(jobs jsonb)
RETURNS TABLE (id /*id*/uuid, status text, outcome text, superseded /*id*/uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
    IF jsonb_typeof(jobs) IS DISTINCT FROM 'array'
       OR EXISTS (SELECT FROM jsonb_array_elements(CASE jsonb_typeof(jobs) WHEN 'array' THEN jobs ELSE '[]' END) AS sent (job)
                  WHERE jsonb_typeof(job) <> 'object') THEN
        PERFORM /*schema.*/refuse_option('jobs', jobs::text, 'give an array of objects with type_name, input and options');
    END IF;
    IF jobs <> '[]' THEN
        RETURN QUERY SELECT written.* FROM /*schema.*/enqueue_documents(ARRAY(
            SELECT /*schema.*/job_document(job ->> 'type_name', coalesce(job -> 'input', '{}'), job - 'type_name' - 'input')
            FROM jsonb_array_elements(jobs) WITH ORDINALITY AS sent (job, place) ORDER BY place
        ), EXISTS (SELECT FROM jsonb_array_elements(jobs) AS sent (job) WHERE job ? 'id')) AS written;
    END IF;
END
$body$;
-- part: enqueue_row
-- A trigger's: the job type, then what its arguments are: 'row' (every column), 'id' (that column), or 'columns' and
-- their names, each as column or argument=column. Runs with the rights of whoever fires it: a user's own type may bring
-- a cast to json, which must not run with ours.
CREATE OR REPLACE FUNCTION /*schema.*/enqueue_row() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    kind text := TG_ARGV[1];
    columns text[] := CASE kind WHEN 'id' THEN ARRAY['id'] WHEN 'columns' THEN TG_ARGV[2:] ELSE '{}' END;
    source jsonb;
    payload jsonb;
    argument text;
    name text;
    problem text;
BEGIN
    IF TG_LEVEL <> 'ROW' THEN
        problem := 'the trigger must be FOR EACH ROW';
    ELSIF kind IS NULL OR kind NOT IN ('row', 'id', 'columns') OR (kind = 'columns') <> (TG_NARGS > 2) THEN
        problem := 'its arguments must be a job type and then row, id, or columns and their names';
    ELSE
        source := CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
        payload := CASE kind WHEN 'row' THEN source ELSE '{}' END;
        FOREACH name IN ARRAY columns LOOP
            argument := name;
            IF NOT source ? name AND position('=' IN name) > 1 THEN
                argument := split_part(name, '=', 1);
                name := substr(name, length(argument) + 2);
            END IF;
            IF NOT source ? name THEN
                problem := 'the table has no column ' || quote_ident(name);
            END IF;
            payload := payload || jsonb_build_object(argument, source -> name);
        END LOOP;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HF006', MESSAGE = 'trigger ' || quote_ident(TG_NAME) || ': ' || problem,
            HINT = 'drop the trigger and create it anew';
    END IF;
    PERFORM /*schema.*/enqueue(TG_ARGV[0], payload);
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$body$;

-- grant: what the roles may do, where there are any. None of them has a right on a table.
-- part: producer
-- May enqueue, and nothing else.
DO $body$
BEGIN
    IF to_regrole('/*role*/producer') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA /*schema*/holdfast TO /*role*/producer;
        GRANT EXECUTE ON FUNCTION /*schema.*/enqueue, /*schema.*/enqueue_many, /*schema.*/enqueue_row, /*schema.*/new_id,
            /*schema.*/is_terminal TO /*role*/producer;
    END IF;
END
$body$;
-- part: worker
-- May run jobs, and enqueue.
DO $body$
BEGIN
    IF to_regrole('/*role*/worker') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA /*schema*/holdfast TO /*role*/worker;
        GRANT EXECUTE ON FUNCTION /*schema.*/enqueue, /*schema.*/enqueue_many, /*schema.*/enqueue_row, /*schema.*/new_id,
            /*schema.*/is_terminal, /*schema.*/register_type, /*schema.*/claim, /*schema.*/heartbeat, /*schema.*/renew,
            /*schema.*/complete, /*schema.*/fail, /*schema.*/snooze, /*schema.*/release, /*schema.*/retire
            TO /*role*/worker;
    END IF;
END
$body$;
-- part: reader
-- May look.
DO $body$
BEGIN
    IF to_regrole('/*role*/reader') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA /*schema*/holdfast TO /*role*/reader;
        GRANT EXECUTE ON FUNCTION /*schema.*/is_terminal TO /*role*/reader;
        GRANT SELECT ON /*schema.*/jobs, /*schema.*/chains, /*schema.*/queue_stats, /*schema.*/partition_keys,
            /*schema.*/stuck_jobs, /*schema.*/dead_letters TO /*role*/reader;
    END IF;
END
$body$;
-- part: operator
-- May look, and do what people do to jobs.
DO $body$
BEGIN
    IF to_regrole('/*role*/operator') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA /*schema*/holdfast TO /*role*/operator;
        GRANT EXECUTE ON FUNCTION /*schema.*/enqueue, /*schema.*/enqueue_many, /*schema.*/new_id, /*schema.*/is_terminal,
            /*schema.*/cancel, /*schema.*/retry, /*schema.*/remove, /*schema.*/release_workers, /*schema.*/prune,
            /*schema.*/pause_queue, /*schema.*/resume_queue, /*schema.*/limit_queue
            TO /*role*/operator;
        GRANT SELECT ON /*schema.*/jobs, /*schema.*/chains, /*schema.*/queue_stats, /*schema.*/partition_keys,
            /*schema.*/stuck_jobs, /*schema.*/dead_letters TO /*role*/operator;
    END IF;
END
$body$;

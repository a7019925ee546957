"""The storage contract, as a product: plain cases per verb, for whatever runs them.

A case is an async function that takes a `Harness`; it returns, or it raises.  There is no test framework in here:

    for case in CASES:
        if harness.dialect in case.dialects:
            async with Harness(url, "async", backdoor) as harness:
                await case.run(harness)

Every case wants a database of its own, or one emptied before it: migrated, unless `case.is_on_empty`.  The claims are
written with `assert`, so Python must not run with -O.
"""

from holdfast.testing.conformance import (
    cancel_jobs,
    cancel_requests,
    claim_jobs,
    claim_suspect,
    complete_jobs,
    complete_outside,
    continue_jobs,
    deduplication,
    delete_chains,
    enqueue_jobs,
    expire_jobs,
    fail_jobs,
    find_lanes,
    get_chain,
    get_job,
    list_blocked_jobs,
    list_chains,
    list_jobs,
    look_at_chains,
    migrate,
    process_once,
    read_blockers,
    reap_jobs,
    refuse_jobs,
    register_types,
    release_jobs,
    release_orphans,
    remove_job,
    renew_leases,
    reschedule_jobs,
    retry_jobs,
    save_progress,
    save_step,
    settle_chains,
    snooze_jobs,
    worker_life,
    write_logs,
)
from holdfast.testing.conformance.case import Case
from holdfast.testing.conformance.harness import Backdoor, Harness

CASES: list[Case] = [
    case
    for module in (
        enqueue_jobs,
        claim_jobs,
        claim_suspect,
        find_lanes,
        renew_leases,
        complete_jobs,
        continue_jobs,
        settle_chains,
        deduplication,
        fail_jobs,
        release_jobs,
        release_orphans,
        reap_jobs,
        cancel_jobs,
        retry_jobs,
        reschedule_jobs,
        remove_job,
        delete_chains,
        complete_outside,
        look_at_chains,
        worker_life,
        register_types,
        get_job,
        get_chain,
        list_jobs,
        list_chains,
        list_blocked_jobs,
        migrate,
        snooze_jobs,
        refuse_jobs,
        cancel_requests,
        save_step,
        save_progress,
        write_logs,
        process_once,
        read_blockers,
        expire_jobs,
    )
    for case in module.CASES
]

__all__ = ["CASES", "Backdoor", "Case", "Harness"]

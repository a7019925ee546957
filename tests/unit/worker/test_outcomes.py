"""What a worker counts as run: what it started."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from holdfast.model.scan_position import Lane
from holdfast.operations.claim_jobs import claim_jobs
from holdfast.operations.lease import Lease
from holdfast.testing import temporary_app
from holdfast.worker.attempt import Attempt
from holdfast.worker.cancel_tasks import cancel_tasks
from holdfast.worker.outcomes import Outcomes
from holdfast.worker.patient_store import PatientStore


async def test_what_goes_back_unstarted_is_no_job_that_was_run() -> None:
    """It neither brings `max_jobs` nearer nor makes the worker think itself faster than it is."""
    with temporary_app() as app:

        @app.job()
        async def work() -> None: ...

        async with app.async_client() as client:
            await client.enqueue_many([work.call() for _ in range(5)])
        store = PatientStore(app.store.asynchronous(), timedelta(seconds=60))
        lanes = [Lane("default", 0, "", 0)]
        jobs = await store.run(lambda: claim_jobs("w", lanes, 5, timedelta(seconds=30)))
        outcomes = Outcomes(store, "w", 100)
        writing = asyncio.create_task(outcomes.run())
        for job in jobs[:3]:
            outcomes.add(Lease(job.id, job.lease_generation), never_started=job)
        await outcomes.drained()
        assert outcomes.finished == 0
        for job in jobs[3:]:
            attempt = Attempt(job, app._registry.handlers["work"], "w")
            outcomes.add(attempt.completion(None), attempt)
        await outcomes.drained()
        assert outcomes.finished == 2
        await cancel_tasks([writing])
        await store.close()

"""The whole exception tree.

Fields carry the values a caller may need, so nobody has to parse a message.  Every message names the offending value
and says what to do next.
"""

from __future__ import annotations

_LONGEST_SHOWN = 100


def shown(value: object) -> str:
    """A value as a message shows it: enough to recognise it, and no more."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}… ({len(text):,} characters)"


class HoldfastError(Exception):
    """Root of every error that Holdfast raises on purpose."""


# --- what the caller sent ---------------------------------------------------------------------------------------------


class InvalidInput(HoldfastError, ValueError):
    """Something passed in cannot be used; nothing was written."""


class InvalidOption(InvalidInput):
    """An option has a value that it cannot have."""

    def __init__(self, option: str, value: object, hint: str) -> None:
        super().__init__(f"{option}={shown(value)}: {hint}")
        self.option = option
        self.value = value


class InvalidCron(InvalidOption):
    """A cron expression cannot be read; `field` names the part that is wrong, if it is one part."""

    def __init__(self, expression: object, hint: str, *, field: str | None = None) -> None:
        super().__init__("cron", expression, hint)
        self.field = field


class InvalidPayload(InvalidInput):
    """An argument or an output cannot be stored as JSON or does not fit its type."""

    def __init__(self, type_name: str, problem: str) -> None:
        super().__init__(f"{type_name}: {problem}")
        self.type_name = type_name
        self.problem = problem


class PayloadTooLarge(InvalidPayload):
    """A payload is larger than the limit of the app."""

    def __init__(self, type_name: str, size: int, limit: int) -> None:
        super().__init__(
            type_name,
            f"the payload is {size:,} bytes, the limit is {limit:,}; store the data elsewhere and pass a reference, "
            f"or raise App(payload_limit=…)",
        )
        self.size = size
        self.limit = limit


class UnknownJobType(InvalidInput):
    """No job type of that name is registered with the app."""

    def __init__(self, type_name: str, known: tuple[str, ...]) -> None:
        listing = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"job type {shown(type_name)} is not registered with this app (registered: {listing}); "
            f"import the module that defines it, or check the spelling"
        )
        self.type_name = type_name
        self.known = known


class InvalidJobType(InvalidInput):
    """A function cannot be registered as a job type."""


class DuplicateJobType(InvalidJobType):
    """Two different functions ask for one name."""

    def __init__(self, type_name: str, first: str, second: str) -> None:
        super().__init__(
            f"job type {type_name!r} is defined twice: at {first} and at {second}; give one of them another name="
        )
        self.type_name = type_name


class InvalidCursor(InvalidInput):
    """A page cursor is garbage or belongs to another query."""

    def __init__(self, cursor: str) -> None:
        super().__init__(f"cursor {shown(cursor)} does not belong to this query; start again without cursor=")
        self.cursor = cursor


class DuplicateKey(InvalidInput):
    """A chain with that deduplication key exists, and the enqueue said on_conflict="reject".

    `chain_id` is None where nobody holds the key but an earlier job of the same batch, which was not written either.
    """

    def __init__(self, type_name: str, key: str, chain_id: str | None) -> None:
        if chain_id is None:
            who = f"an earlier job of this batch, of {type_name!r} too, has this key; leave one out, or"
        else:
            who = f"chain {chain_id} of {type_name!r} holds this key;"
        super().__init__(
            f"dedup={shown(key)}: {who} use on_conflict='keep' to get that chain, or 'replace' to give it the new "
            f"arguments"
        )
        self.type_name = type_name
        self.key = key
        self.chain_id = chain_id


class BlockerCycle(InvalidInput):
    """A chain would wait for itself."""

    def __init__(self, chain_id: str) -> None:
        super().__init__(f"blockers: chain {chain_id} would wait for itself, perhaps over others; leave one out")
        self.chain_id = chain_id


# --- the caller's transaction -----------------------------------------------------------------------------------------


class TransactionError(HoldfastError):
    """The object passed as tx= cannot carry the work."""


class NoTransaction(TransactionError):
    """tx= is not inside a transaction, so nothing would tie the job to the caller's data."""

    def __init__(self, kind: str, fix: str) -> None:
        super().__init__(f"tx= is a {kind} outside a transaction; {fix}")
        self.kind = kind


class WrongConnection(TransactionError):
    """tx= is of a kind that this client or this database cannot use."""

    def __init__(self, tx: object, why: str) -> None:
        name = f"{type(tx).__module__}.{type(tx).__qualname__}"
        super().__init__(f"tx= is a {name}: {why}")
        self.kind = name


class WrongDatabase(WrongConnection):
    """tx= leads to another database, or another file, than the app's."""

    def __init__(self, tx: object, database: str, why: str) -> None:
        super().__init__(tx, why)
        self.database = database


class WrongIsolation(TransactionError):
    """The transaction's isolation level would hide what the verb must see."""

    def __init__(self, verb: str) -> None:
        super().__init__(
            f"{verb} must see who has come to wait for the chains, which REPEATABLE READ and SERIALIZABLE hide; "
            f"use READ COMMITTED, or leave out tx="
        )
        self.verb = verb


class AbortedTransaction(TransactionError):
    """An earlier statement already failed in the caller's transaction."""

    def __init__(self) -> None:
        super().__init__(
            "the transaction passed as tx= has already failed (an earlier statement raised); roll it back first"
        )


class TransactionEnded(TransactionError):
    """The transaction of a `ctx.transaction()` was committed or rolled back inside its block."""

    def __init__(self) -> None:
        super().__init__(
            "the transaction of ctx.transaction() was committed or rolled back inside its block, so what the block "
            "wrote is not committed as a whole; leave its end to the block"
        )


class ReadOnlyTransaction(TransactionError):
    """The caller's transaction, or its connection, may only read."""

    def __init__(self, fix: str) -> None:
        super().__init__(f"the transaction passed as tx= is read-only; roll it back, and {fix}")


# --- the database -----------------------------------------------------------------------------------------------------


class StoreError(HoldfastError):
    """The database could not do what was asked."""


class DatabaseUnavailable(StoreError):
    """The database cannot be reached, or the connection was lost; trying again may help."""


class DatabaseBusy(DatabaseUnavailable):
    """SQLite: another connection holds the write lock."""

    def __init__(self, waited_seconds: float, why: str = "a write transaction is open; did you mean tx=?") -> None:
        how_long = f"was locked for {waited_seconds:.1f} s" if waited_seconds else "is locked"
        super().__init__(f"the database {how_long}: {why}")
        self.waited_seconds = waited_seconds


class ClientClosed(StoreError):
    """The client was closed before."""

    def __init__(self) -> None:
        super().__init__("this client is closed; open a new one with app.client() or app.async_client()")


class SerializationConflict(StoreError):
    """The transaction lost a race (serialization failure or deadlock); run it again."""


class RowReferenced(StoreError):
    """A job cannot be deleted: a row of the application refers to it by a foreign key."""


class NotMigrated(StoreError):
    """Holdfast's tables are missing or older than this code needs."""

    def __init__(self, found: int, needed: int) -> None:
        what = "has no Holdfast tables" if found == 0 else f"has Holdfast schema {found}"
        super().__init__(
            f"the database {what}, this code needs schema {needed}; run `holdfast migrate up`, call client.migrate(), "
            f"or use App(…, auto_migrate=True)"
        )
        self.found = found
        self.needed = needed


class SchemaTooNew(StoreError):
    """A newer release migrated the database and no longer allows this code."""

    def __init__(self, found: int, oldest_code: str, this_code: str) -> None:
        super().__init__(
            f"the database has Holdfast schema {found}, which needs holdfast {oldest_code} or newer; "
            f"this is {this_code}: upgrade the package"
        )
        self.found = found
        self.oldest_code = oldest_code


class DatabaseRestored(StoreError):
    """The database is a restored backup or a copy; what it has pending may have been done before."""

    def __init__(self, found: str, recorded: str) -> None:
        super().__init__(
            f"this database lies elsewhere ({found}) than when workers last worked in it ({recorded}): it was restored "
            f"from a backup, or copied, and what it has pending may have been done already. Look at it with "
            f"`holdfast jobs list`, cancel what must not run again, and then say `holdfast workers accept`, or "
            f"client.workers.accept()"
        )
        self.found = found
        self.recorded = recorded


class MissingExtra(HoldfastError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(f"{module} is not installed; run: pip install 'holdfast[{extra}]'")
        self.extra = extra


# --- looking things up ------------------------------------------------------------------------------------------------


class JobNotFound(HoldfastError, LookupError):
    """No job has that id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"no job has the id {shown(job_id)}; it may have been deleted, or live in another database or schema"
        )
        self.job_id = job_id


class ChainNotFound(HoldfastError, LookupError):
    """No chain has that id."""

    def __init__(self, chain_id: str, why: str | None = None) -> None:
        reason = why or "it may have been deleted, be the id of a later job of a chain, or live in another database"
        super().__init__(f"no chain has the id {shown(chain_id)}; {reason}")
        self.chain_id = chain_id


class ChainNotCommitted(ChainNotFound):
    """A chain was enqueued with tx=, and nobody else can see it yet."""

    def __init__(self, chain_id: str) -> None:
        super().__init__(
            chain_id,
            "it was enqueued with tx= and that transaction has not committed, or was rolled back; "
            "wait after the commit",
        )


class ScheduleNotFound(HoldfastError, LookupError):
    """An app has no schedule of that name in the database."""

    def __init__(self, app: str, name: str) -> None:
        super().__init__(
            f"app {shown(app)} has no schedule {shown(name)}; those in code are there once a worker has started or "
            f"`holdfast schedules sync` has run, and `holdfast schedules list` shows all"
        )
        self.app = app
        self.name = name


class ScheduleExists(HoldfastError):
    """Another schedule has that name."""

    def __init__(self, app: str, name: str, *, is_in_code: bool) -> None:
        way_out = "it is defined in code; give another name" if is_in_code else "use replace=True to change it"
        super().__init__(f"app {shown(app)} has another schedule {shown(name)}: {way_out}")
        self.app = app
        self.name = name


# --- waiting for a chain, and completing it from outside --------------------------------------------------------------


class WaitRefused(HoldfastError):
    """A handler waits for a chain: it would hold its slot, and the chain may need that very slot.

    `job_id` is None in a thread that the handler has started by itself.
    """

    def __init__(self, job_id: str | None) -> None:
        who = "a handler" if job_id is None else f"the handler of job {job_id}"
        super().__init__(
            f"wait() inside {who} would keep its slot from the job it waits for; "
            f"return, and enqueue what comes after with blockers=[chain], or use ctx.enqueue(…) and ctx.gather(…)"
        )
        self.job_id = job_id


class WaitTimeout(HoldfastError, TimeoutError):
    """A chain did not finish in the time given; it goes on."""

    def __init__(self, chain_id: str, timeout_seconds: float, status: str) -> None:
        super().__init__(
            f"chain {chain_id} did not finish within {timeout_seconds:g} s, it is {status}; it goes on, wait again"
        )
        self.chain_id = chain_id
        self.timeout_seconds = timeout_seconds
        self.status = status


class ChainDeleted(HoldfastError, LookupError):
    """A chain was deleted before it could be seen finished."""

    def __init__(self, chain_id: str) -> None:
        super().__init__(f"chain {chain_id} was there, and has been deleted; whether it had finished is not known")
        self.chain_id = chain_id


class ChainNotCompleted(HoldfastError):
    """A chain ended without an output; the error is that of its last attempt, where there was one."""

    def __init__(self, chain_id: str, job_id: str, how: str, error: tuple[str | None, str | None, str | None]) -> None:
        self.chain_id = chain_id
        self.job_id = job_id
        self.error_type, self.error_message, self.error_traceback = error
        cause = "" if self.error_type is None else f": {self.error_type}: {self.error_message}"
        super().__init__(f"chain {chain_id} {how}{cause} (job {job_id})")


class ChainFailed(ChainNotCompleted):
    """A chain ended as a dead letter: it will not be tried again until a person says so."""


class ChainCancelled(ChainNotCompleted):
    """A chain was cancelled."""


class AlreadyFinished(HoldfastError):
    """A job cannot be completed from outside: it has finished."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(f"job {job_id} is {status} already; nothing was changed")
        self.job_id = job_id
        self.status = status


# --- verbs on jobs ----------------------------------------------------------------------------------------------------


class BatchRefused(HoldfastError):
    """A strict verb cannot be done for all that were named, so it was done for none."""

    def __init__(self, verb: str, refused: dict[str, str]) -> None:
        job_id, why = next(iter(refused.items()))
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        super().__init__(f"{verb} of {job_id}: {why}{more}; nothing was changed; leave these out, or use strict=False")
        self.verb = verb
        self.refused = refused


class ChainNeeded(HoldfastError):
    """Chains cannot be deleted, because jobs of other chains need them."""

    def __init__(self, needed: dict[str, list[str]], *, cascade: bool = False) -> None:
        chain_id, jobs = next(iter(needed.items()))
        more = f" (and {len(needed) - 1} more chains)" if len(needed) > 1 else ""
        super().__init__(f"{self.sentence(chain_id, jobs, cascade=cascade)}{more}; nothing was deleted")
        self.needed = needed

    @staticmethod
    def sentence(chain_id: str, jobs: list[str], *, cascade: bool = False) -> str:
        """Who needs the chain, or with `cascade` one of those that it waited for."""
        named = 3
        more = f" and {len(jobs) - named} more" if len(jobs) > named else ""
        which = f"chain {chain_id}, or one that cascade would delete with it," if cascade else f"chain {chain_id}"
        way_out = "finish, cancel or delete that first"
        if cascade:
            way_out = "leave out cascade, or delete the chains of these too"
        return f"{which} is needed by job {', '.join(jobs[:named])}{more}; {way_out}"


# --- leases and attempts ----------------------------------------------------------------------------------------------


class LeaseLost(HoldfastError):
    """A write by a lease holder was refused: the job belongs to somebody else now, or is finished."""

    def __init__(self, job_id: str, lease_generation: int, reason: str = "lease_lost") -> None:
        super().__init__(
            f"job {job_id}: this handler has completed it already; complete it once, as the last thing"
            if reason == "completed_here"
            else f"job {job_id}: lease generation {lease_generation} no longer holds it ({reason}); stop working on it"
        )
        self.job_id = job_id
        self.lease_generation = lease_generation
        self.reason = reason


class JobTimeout(HoldfastError, TimeoutError):
    """An attempt ran longer than the timeout of its job."""

    def __init__(self, timeout_seconds: float) -> None:
        super().__init__(f"the attempt ran longer than its timeout of {timeout_seconds:g} s")
        self.timeout_seconds = timeout_seconds


class HandlerProcessDied(HoldfastError):
    """The process that ran a handler ended before the handler did."""

    def __init__(self, how: str) -> None:
        super().__init__(f"the handler's process is gone: {how}")


class UnfitOutcomes(HoldfastError):
    """A batch handler did not return one outcome for each of its jobs."""

    def __init__(self, jobs: int, outcomes: object) -> None:
        got = f"{len(outcomes)} of them" if isinstance(outcomes, list | tuple) else type(outcomes).__name__
        super().__init__(
            f"a batch handler returns None, or a list with an output or an exception for each of its {jobs} jobs; "
            f"this one returned {got}"
        )


class JobLocked(HoldfastError):
    """A write by a lease holder was given up: another transaction has locked the job's row."""

    def __init__(self, job_id: str, waited_seconds: float) -> None:
        super().__init__(
            f"job {job_id}: its row was locked for {waited_seconds:.1f} s by another transaction; if that is one "
            f"of this handler's own, pass it as tx="
        )
        self.job_id = job_id
        self.waited_seconds = waited_seconds


class DuplicateStep(HoldfastError):
    """A handler used one name for two steps of a run."""

    def __init__(self, job_id: str, name: str) -> None:
        super().__init__(
            f"job {job_id}: the step {shown(name)} was used twice in one run, and could not be told apart from itself "
            f"on the next; give each step a name of its own, such as {shown(name + ':1')}"
        )
        self.job_id = job_id
        self.name = name


class StepChanged(HoldfastError):
    """A handler uses a name for something else than an earlier attempt of the job did."""

    def __init__(self, job_id: str, name: str, saved_as: str, used_as: str) -> None:
        super().__init__(
            f"job {job_id}: {shown(name)} was saved as {saved_as} by an earlier attempt, and is {used_as} in this "
            f"code; give what is new a name of its own"
        )
        self.job_id = job_id
        self.name = name


class WaitInBatch(HoldfastError):
    """A batch handler wants to wait for one of its jobs, which would be waiting for all."""

    def __init__(self, job_id: str, what: str) -> None:
        super().__init__(
            f"job {job_id}: {what} in a batch handler would end the call for all its jobs; return Snooze(…) for this "
            f"one, or handle jobs that wait one by one"
        )
        self.job_id = job_id


class WaitSwallowed(HoldfastError):
    """A handler went on after a durable wait had ended its attempt."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id}: its handler was to wait, without its slot, but caught what ended its run and went on; let "
            f"`Suspended` pass (`except Exception` does), and raise it again after cleaning up"
        )
        self.job_id = job_id


class SignalTimeout(HoldfastError, TimeoutError):
    """A signal did not come in the time that a handler gave it."""

    def __init__(self, job_id: str, signal: str) -> None:
        super().__init__(
            f"job {job_id}: the signal {shown(signal)} did not come in time; catch this, or give wait_signal a default="
        )
        self.job_id = job_id
        self.signal = signal


class ChildFailed(HoldfastError):
    """A chain that a handler has enqueued with `ctx.enqueue`, and waited for, did not complete.

    - `name`, `chain_id`: the child; `status`: "dead_letter", "cancelled", or None if it was deleted.
    - `error_type`, `error_message`: of its last attempt, where there was one.
    """

    def __init__(
        self, name: str, chain_id: str, status: str | None, error_type: str | None, error_message: str | None
    ) -> None:
        how = {"dead_letter": "is a dead letter", "cancelled": "was cancelled", None: "was deleted"}.get(status, status)
        cause = "" if error_type is None else f": {error_type}: {error_message}"
        super().__init__(f"child {shown(name)} (chain {chain_id}) {how}{cause}")
        self.name = name
        self.chain_id = chain_id
        self.status = status
        self.error_type = error_type
        self.error_message = error_message


class CompletionNotCommitted(HoldfastError):
    """A handler completed its job with tx= and left, but that transaction did not commit."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id}: it was completed on a transaction that was rolled back, or was not committed when the "
            f"handler left; commit before you return"
        )
        self.job_id = job_id


class ContinuationNotReturned(HoldfastError):
    """A handler called continue_with(…) and returned something else."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id}: the result of ctx.continue_with(…) was not returned, so the chain would have ended here; "
            f"write `return await ctx.continue_with(…)`, or `return ctx.continue_with(…)` in a def handler"
        )
        self.job_id = job_id


class WorkerCannotWork(HoldfastError):
    """A worker met a condition that retrying cannot mend, and stops."""


class LeadershipLost(HoldfastError):
    """A service of the leader wanted to go on after its worker's term; the next leader does the work."""

    def __init__(self) -> None:
        super().__init__("this worker does not lead any more; the next leader goes on")

"""The whole exception tree.

Fields carry the values a caller may need, so nobody has to parse a message.  Every message names the offending value
and says what to do next.
"""

from __future__ import annotations


class HoldfastError(Exception):
    """Root of every error that Holdfast raises on purpose."""


# --- what the caller sent ---------------------------------------------------------------------------------------------


class InvalidInput(HoldfastError, ValueError):
    """Something passed in cannot be used; nothing was written."""


class InvalidOption(InvalidInput):
    """An option has a value that it cannot have."""

    def __init__(self, option: str, value: object, hint: str) -> None:
        super().__init__(f"{option}={value!r}: {hint}")
        self.option = option
        self.value = value


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
            f"job type {type_name!r} is not registered with this app (registered: {listing}); "
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
        super().__init__(f"cursor {cursor!r} does not belong to this query; start again without cursor=")
        self.cursor = cursor


class DuplicateKey(InvalidInput):
    """A chain with that deduplication key exists, and the enqueue said on_conflict="reject"."""

    def __init__(self, type_name: str, key: str, chain_id: str) -> None:
        super().__init__(
            f"dedup={key!r}: chain {chain_id} of {type_name!r} holds this key; use on_conflict='keep' to get that "
            f"chain, or 'replace' to give it the new arguments"
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


# --- the database -----------------------------------------------------------------------------------------------------


class StoreError(HoldfastError):
    """The database could not do what was asked."""


class DatabaseUnavailable(StoreError):
    """The database cannot be reached, or the connection was lost; trying again may help."""


class DatabaseBusy(DatabaseUnavailable):
    """SQLite: another connection holds the write lock."""

    def __init__(self, waited_seconds: float) -> None:
        super().__init__(
            f"the database was locked for {waited_seconds:.1f} s: a write transaction is open; did you mean tx=?"
        )
        self.waited_seconds = waited_seconds


class ClientClosed(StoreError):
    """The client was closed before."""

    def __init__(self) -> None:
        super().__init__("this client is closed; open a new one with app.client() or app.async_client()")


class SerializationConflict(StoreError):
    """The transaction lost a race (serialization failure or deadlock); run it again."""


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
            f"no job has the id {job_id!r}; it may have been deleted, or live in another database or schema"
        )
        self.job_id = job_id


class ChainNotFound(HoldfastError, LookupError):
    """No chain has that id."""

    def __init__(self, chain_id: str, why: str | None = None) -> None:
        reason = why or "it may have been deleted, be the id of a later job of a chain, or live in another database"
        super().__init__(f"no chain has the id {chain_id!r}; {reason}")
        self.chain_id = chain_id


class ChainNotCommitted(ChainNotFound):
    """A chain was enqueued with tx=, and nobody else can see it yet."""

    def __init__(self, chain_id: str) -> None:
        super().__init__(
            chain_id,
            "it was enqueued with tx= and that transaction has not committed, or was rolled back; "
            "wait after the commit",
        )


# --- waiting for a chain, and completing it from outside --------------------------------------------------------------


class WaitRefused(HoldfastError):
    """A handler waits for a chain: it would hold its slot, and the chain may need that very slot."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"wait() inside the handler of job {job_id} would keep its slot from the job it waits for; "
            f"return, and enqueue what comes after with blockers=[chain]"
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

    def __init__(self, needed: dict[str, list[str]]) -> None:
        chain_id, jobs = next(iter(needed.items()))
        more = f" (and {len(needed) - 1} more chains)" if len(needed) > 1 else ""
        super().__init__(f"{self.sentence(chain_id, jobs)}{more}; nothing was deleted")
        self.needed = needed

    @staticmethod
    def sentence(chain_id: str, jobs: list[str]) -> str:
        """Who needs the chain."""
        named = 3
        more = f" and {len(jobs) - named} more" if len(jobs) > named else ""
        return (
            f"chain {chain_id}, or one that would go with it, is needed by job {', '.join(jobs[:named])}{more}; "
            f"finish, cancel or delete that first"
        )


# --- leases and attempts ----------------------------------------------------------------------------------------------


class LeaseLost(HoldfastError):
    """A write by a lease holder was refused: the job belongs to somebody else now, or is finished."""

    def __init__(self, job_id: str, lease_generation: int, reason: str = "lease_lost") -> None:
        super().__init__(
            f"job {job_id}: lease generation {lease_generation} no longer holds it ({reason}); stop working on it"
        )
        self.job_id = job_id
        self.lease_generation = lease_generation
        self.reason = reason


class JobTimeout(HoldfastError, TimeoutError):
    """An attempt ran longer than the timeout of its job."""

    def __init__(self, timeout_seconds: float) -> None:
        super().__init__(f"the attempt ran longer than its timeout of {timeout_seconds:g} s")
        self.timeout_seconds = timeout_seconds


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
            f"job {job_id}: the step {name!r} was used twice in one run, and could not be told apart from itself on "
            f"the next; give each step a name of its own, such as {name + ':1'!r}"
        )
        self.job_id = job_id
        self.name = name


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

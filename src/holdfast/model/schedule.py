"""Schedules: when they enqueue what, and which of their ticks are due."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, Protocol, TypedDict, get_args
from zoneinfo import ZoneInfo

import msgspec

from holdfast.errors import InvalidOption
from holdfast.model.call import Call, JobDocument
from holdfast.model.clock import LONGEST, Duration, checked_duration, checked_instant, iso, milliseconds, utc_now
from holdfast.model.cron import Cron, checked_zone, parsed
from holdfast.model.identifiers import checked_name
from holdfast.model.payload import to_json

CatchUp = Literal["skip", "one", "all"]
Overlap = Literal["allow", "skip"]
Origin = Literal["code", "client"]

#: a tick that comes no later than this is late, not missed: leaders change, and deploys take a while
GRACE: Final = timedelta(minutes=1)
#: how many ticks of one schedule are made up for at a time
MOST_AT_ONCE: Final = 100
_SHORTEST_INTERVAL: Final = timedelta(seconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OLDEST_OF_ALL: Final = timedelta(days=1)
_MOST_UPCOMING: Final = 1000
#: how far back the latest tick is looked for, in turn
_WINDOWS = (GRACE, timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366), LONGEST)


class Timing(Protocol):
    """When something comes again."""

    def next_after(self, moment: datetime) -> datetime | None:
        """The first tick later than a moment; None if there is none any more."""
        ...


@dataclass(frozen=True, slots=True)
class CronTiming:
    """By the clocks of a zone."""

    cron: Cron
    zone: ZoneInfo

    def next_after(self, moment: datetime) -> datetime | None:
        return self.cron.next_after(moment, self.zone)


@dataclass(frozen=True, slots=True)
class IntervalTiming:
    """Whole intervals since 1970 began in UTC: the same ticks for whoever computes them, and whenever."""

    interval: timedelta

    def next_after(self, moment: datetime) -> datetime | None:
        try:
            return _EPOCH + ((moment - _EPOCH) // self.interval + 1) * self.interval
        except OverflowError:
            return None


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """When a schedule comes, and what becomes of ticks that nobody was there for."""

    cron: str | None = None
    interval_ms: int | None = None
    timezone: str = "UTC"
    catch_up: CatchUp = "skip"
    max_age_ms: int | None = None
    overlap: Overlap = "allow"
    jitter_ms: int = 0

    @property
    def timing(self) -> Timing:
        """Raises where this machine cannot read what another one wrote."""
        if self.interval_ms is not None:
            return IntervalTiming(timedelta(milliseconds=self.interval_ms))
        return CronTiming(parsed(self.cron or ""), checked_zone(self.timezone))

    def has_timing_of(self, other: Rule) -> bool:
        """Whether the ticks are the same."""
        return (self.cron, self.interval_ms, self.timezone) == (other.cron, other.interval_ms, other.timezone)


class ScheduleRecord(Rule, frozen=True, kw_only=True):
    """A schedule as the database has it.

    - `app`, `name`: whose it is, and its name there.
    - `origin`: "code" if it comes from `@app.schedule`, "client" if it was created at run time.
    - `cron` or `interval_ms`, `timezone`, `catch_up`, `max_age_ms`, `overlap`, `jitter_ms`: as it was given.
    - `next_at`: its next tick; None if it will have none. `last_tick_at`: the latest that has been dealt with.
    - `last_fired_at`, `last_chain_id`: when it last enqueued, and what.
    - `paused_at`, `paused_by`, `pause_reason`: set while it is paused.
    - `retired_at`: since when the code does not have it any more.
    """

    app: str
    name: str
    origin: Origin
    type_name: str
    queue: str
    definition: str
    created_at: datetime
    changed_at: datetime
    next_at: datetime | None = None
    last_tick_at: datetime | None = None
    last_fired_at: datetime | None = None
    last_chain_id: str | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    retired_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        """Whether its ticks enqueue."""
        return self.paused_at is None and self.retired_at is None

    def upcoming(self, count: int = 5, *, after: datetime | None = None) -> list[datetime]:
        """Its next ticks after a time, which is now if not given, paused or not."""
        if type(count) is not int or not 1 <= count <= _MOST_UPCOMING:
            raise InvalidOption("count", count, f"must be a whole number from 1 to {_MOST_UPCOMING:,}")
        moment = utc_now() if after is None else checked_instant("after", after)
        timing, found = self.timing, list[datetime]()
        tick = timing.next_after(moment)
        while tick is not None and len(found) < count:
            found.append(tick)
            tick = timing.next_after(tick)
        return found


class RuleOptions(TypedDict, total=False):
    """When a schedule comes.

    - `timezone` ("UTC"): whose clocks a cron expression goes by.
    - `catch_up` ("skip"): what becomes of ticks that are more than a minute late: nothing, "one" job for the latest of
      them, or a job for each: "all".
    - `max_age` (none; a day for "all"): older ticks are not caught up.
    - `overlap` ("allow"): "skip" enqueues nothing while the schedule's last chain is unfinished.
    - `jitter` (none): jobs may run up to so much later than their tick, each by another part of it.
    """

    timezone: str
    catch_up: CatchUp
    max_age: Duration | None
    overlap: Overlap
    jitter: Duration | None


def checked_rule(cron: object = None, every: object = None, options: RuleOptions | None = None) -> Rule:
    """The rule that somebody asks for, or an error that says what is wrong."""
    given: dict[str, Any] = dict(options or {})
    zone, catch_up = given.pop("timezone", "UTC"), given.pop("catch_up", "skip")
    overlap, jitter, max_age = given.pop("overlap", "allow"), given.pop("jitter", None), given.pop("max_age", None)
    for name, value in given.items():
        known = ", ".join(sorted(RuleOptions.__annotations__))
        raise InvalidOption(name, value, f"is not an option; the options are {known}")
    if (cron is None) == (every is None):
        raise InvalidOption("cron", cron, "give a cron expression, or every=, and not both")
    _check_choice("catch_up", catch_up, CatchUp)
    _check_choice("overlap", overlap, Overlap)
    checked_zone(zone)
    if every is not None and zone != "UTC":
        raise InvalidOption("timezone", zone, "is for cron expressions; an interval goes by no clock")
    return Rule(
        cron=None if cron is None else Cron(cron).expression,
        interval_ms=None if every is None else _checked_interval(every),
        timezone=zone,
        catch_up=catch_up,
        max_age_ms=_checked_max_age(catch_up, max_age),
        overlap=overlap,
        jitter_ms=0 if jitter is None else milliseconds(checked_duration("jitter", jitter)),
    )


def _check_choice(option: str, value: object, choices: Any) -> None:
    if value not in get_args(choices):
        raise InvalidOption(option, value, f"must be one of {', '.join(get_args(choices))}")


def _checked_interval(every: object) -> int:
    interval = checked_duration("every", every)
    if interval < _SHORTEST_INTERVAL:
        raise InvalidOption("every", every, "must be at least a second")
    return milliseconds(interval)


def _checked_max_age(catch_up: str, max_age: object) -> int | None:
    if max_age is None:
        return milliseconds(_OLDEST_OF_ALL) if catch_up == "all" else None
    age = checked_duration("max_age", max_age)
    if catch_up == "skip":
        raise InvalidOption("max_age", max_age, 'is for catch_up="one" and "all"; nothing is caught up here')
    if age < GRACE:
        raise InvalidOption("max_age", max_age, "must be at least a minute; a tick that is less late is not missed")
    return milliseconds(age)


@dataclass(frozen=True, slots=True)
class Definition:
    """A schedule as code or a client gives it."""

    name: str
    rule: Rule
    #: the job that a tick enqueues, without an id
    job: JobDocument
    #: the same for the same schedule, another one if anything of it differs
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        parts = to_json([msgspec.to_builtins(self.rule), msgspec.json.encode(self.job).decode()])
        object.__setattr__(self, "digest", hashlib.sha256(parts).hexdigest()[:32])


#: what a job of a schedule cannot have, and why
_REFUSED_OPTIONS = {
    "id": "cannot be given to a schedule; each of its jobs has its own",
    "at": "cannot be given to a schedule; its ticks say when",
    "delay": "cannot be given to a schedule; its ticks say when, and jitter= spreads them",
    "blockers": "cannot be given to a schedule; these chains will have ended after the first tick",
}


def checked_definition(name: object, rule: Rule, call: Call[Any]) -> Definition:
    """Refuses what makes sense once only."""
    if not isinstance(call, Call):
        raise InvalidOption("call", call, "must be made with your_job.call(…)")
    for option, hint in _REFUSED_OPTIONS.items():
        if (value := call.options_given.get(option)) is not None:
            raise InvalidOption(option, value, hint)
    if isinstance(expires := call.options_given.get("expires"), datetime):
        raise InvalidOption("expires", expires, "must be a duration for a schedule, from each of its ticks")
    job = call.document("", {})
    if job.is_guarded and job.extras.on_conflict == "reject":
        raise InvalidOption("dedup", job.extras.deduplication_key, "on_conflict='reject' leaves a tick nobody to tell")
    return Definition(checked_name("name", name), rule, job)


class DueTicks(NamedTuple):
    """Those that enqueue now, oldest first, and the first one that is not dealt with."""

    ticks: list[datetime]
    next_at: datetime | None


def due_ticks(rule: Rule, first: datetime, now: datetime) -> DueTicks:
    """What is to be done about the ticks from `first`, which is one, until now."""
    timing = rule.timing
    oldest = first
    if first < now - GRACE:
        if rule.catch_up == "one":
            return _latest_alone(rule, timing, first, now)
        kept = GRACE if rule.catch_up == "skip" or rule.max_age_ms is None else timedelta(milliseconds=rule.max_age_ms)
        oldest = now - kept
    tick = first if first >= oldest else timing.next_after(oldest - timedelta.resolution)
    ticks: list[datetime] = []
    while tick is not None and tick <= now and len(ticks) < MOST_AT_ONCE:
        ticks.append(tick)
        tick = timing.next_after(tick)
    return DueTicks(ticks, tick)


def _latest_alone(rule: Rule, timing: Timing, first: datetime, now: datetime) -> DueTicks:
    latest = _latest(timing, first, now)
    is_wanted = rule.max_age_ms is None or latest >= now - timedelta(milliseconds=rule.max_age_ms)
    return DueTicks([latest] if is_wanted else [], timing.next_after(now))


def _latest(timing: Timing, first: datetime, now: datetime) -> datetime:
    """Of the ticks from the first until now; there is no way to go back but from somewhere forward."""
    for window in _WINDOWS:
        if now - window <= first:
            break
        tick = timing.next_after(now - window)
        if tick is not None and tick <= now:
            first = tick
            break
    latest, tick = first, timing.next_after(first)
    while tick is not None and tick <= now:
        latest, tick = tick, timing.next_after(tick)
    return latest


def tick_job(schedule: ScheduleRecord, template: JobDocument, tick: datetime, job_id: str) -> JobDocument:
    """The job of a tick: its key says so, unless the job has a key of its own, and its headers tell the handler."""
    job = _job(template, job_id, {"schedule": schedule.name, "tick": iso(tick)})
    key = tick_key(schedule.app, schedule.name, tick)
    if job.extras.deduplication_key is None:
        job.extras.deduplication_key = key
        job.extras.deduplication_scope = "unfinished"
    offset = _part_of(key) * schedule.jitter_ms
    job.scheduled_at = iso(tick + timedelta(milliseconds=int(offset)))
    return job


def extra_job(name: str, template: JobDocument, job_id: str) -> JobDocument:
    """The job of a schedule that somebody wants now."""
    return _job(template, job_id, {"schedule": name})


def tick_key(app: str, name: str, tick: datetime) -> str:
    """The deduplication key of a tick."""
    return f"schedule:{app}/{name}@{iso(tick)}"


def _job(template: JobDocument, job_id: str, headers: dict[str, str]) -> JobDocument:
    own: dict[str, str] = {} if template.headers is None else msgspec.json.decode(template.headers)
    return msgspec.structs.replace(
        template, id=job_id, headers=msgspec.Raw(to_json(own | headers)), more=msgspec.structs.replace(template.extras)
    )


def _part_of(text: str) -> float:
    """From 0 up to 1: the same for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48


@dataclass(frozen=True, slots=True)
class AppSchedules:
    """The schedules that the code of an app has, by name."""

    app: str
    definitions: dict[str, Definition] = field(default_factory=dict)

    def add(self, definition: Definition) -> None:
        """A module imported twice may say the same twice."""
        known = self.definitions.setdefault(definition.name, definition)
        if known.digest != definition.digest:
            raise InvalidOption("name", definition.name, "is the name of another schedule of this app; give another")

    @property
    def digests(self) -> dict[str, str]:
        """What others need to know of them."""
        return {name: definition.digest for name, definition in self.definitions.items()}

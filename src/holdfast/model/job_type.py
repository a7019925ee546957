"""Job types: what a function's signature says about its jobs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import msgspec

from holdfast.errors import InvalidJobType, InvalidPayload
from holdfast.model.dedup import Dedup
from holdfast.model.partition import Ordering
from holdfast.model.payload import PayloadCodec
from holdfast.model.retention import Keep
from holdfast.model.retry import Retry


@dataclass(frozen=True, slots=True, eq=False)
class JobType:
    """A name, its policies, and the codecs of its parameters and output."""

    name: str
    queue: str
    priority: int
    retry: Retry
    timeout: timedelta | None
    signature: Signature
    output: PayloadCodec[Any]
    expires: timedelta | None = None
    #: makes a key of a call's arguments
    dedup: Callable[..., Dedup | str | None] | None = None
    #: other names under which its jobs may be stored
    aliases: tuple[str, ...] = ()
    #: the key of all its jobs, or what makes one of a call's arguments
    partition_key: Callable[..., str | None] | str | None = None
    ordering: Ordering = "fifo"
    shards: int | None = None
    #: likewise
    concurrency_key: Callable[..., str | None] | str | None = None
    #: how long its chains are kept; None: as is usual
    keep: Keep | None = None
    #: whether `options_of` may have something to say
    has_options: bool = field(init=False)

    def __post_init__(self) -> None:
        said = (self.dedup, self.partition_key, self.concurrency_key)
        object.__setattr__(self, "has_options", self.ordering != "fifo" or any(each is not None for each in said))

    def options_of(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, Any]:
        """What follows from the arguments of a call, those left out included, for its enqueue."""
        options: dict[str, Any] = {}
        if self.dedup is not None:
            options["dedup"] = self._made_by("dedup", self.dedup, args, kwargs, (str, Dedup))
        if self.partition_key is not None:
            options["partition_key"] = self._key("partition_key", self.partition_key, args, kwargs)
            options["shards"] = self.shards
        if self.concurrency_key is not None:
            options["concurrency_key"] = self._key("concurrency_key", self.concurrency_key, args, kwargs)
        if self.ordering != "fifo":
            options["ordering"] = self.ordering
        return options

    def _key(
        self,
        option: str,
        key: Callable[..., str | None] | str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> str | None:
        made: str | None = self._made_by(option, key, args, kwargs, (str,)) if callable(key) else key
        return made

    def _made_by(
        self,
        option: str,
        make: Callable[..., object],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        kinds: tuple[type, ...],
    ) -> Any:
        arguments = self.signature.bound(args, kwargs)
        try:
            made = make(*arguments.args, **arguments.kwargs)
        except Exception as error:
            raise InvalidPayload(self.name, f"its {option}= raised {type(error).__name__}: {error}") from error
        if made is not None and not isinstance(made, kinds):
            wanted = ", ".join("Dedup(…)" if kind is Dedup else "a string" for kind in kinds)
            raise InvalidPayload(self.name, f"its {option}= returned {type(made).__name__}, not {wanted} or None")
        return made


class Signature(Protocol):
    """How the arguments of a call become a job's input, and back."""

    names: tuple[str, ...]
    output_hint: Any
    context_type: type | None

    wants_context: bool

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """The stored input of a call."""
        ...

    def decode(self, data: bytes | str) -> Any:
        """What the handler is called with."""
        ...

    def bound(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> inspect.BoundArguments:
        """The arguments of a call that can be encoded, by their names and with the defaults of those left out."""
        ...

    def takes(self, function: Callable[..., object]) -> bool:
        """Whether a function can be called with the same arguments."""
        ...


class CallSignature:
    """The parameters of a handler, without its context."""

    def __init__(
        self, owner: str, function: Callable[..., object], context_types: tuple[type, ...], limit: int
    ) -> None:
        self.owner = owner
        hints = resolved_hints(owner, function)
        parameters = list(inspect.signature(function).parameters.values())
        first = hints.get(parameters[0].name) if parameters else None
        self.context_type: type | None = first if first in context_types else None
        self.wants_context = self.context_type is not None
        if self.wants_context:
            parameters = parameters[1:]
        self.names = tuple(parameter.name for parameter in parameters)
        self._plain = inspect.Signature(
            [parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=parameter.empty) for parameter in parameters]
        )
        self._has_defaults = any(parameter.default is not parameter.empty for parameter in parameters)
        fields: list[Any] = []
        for parameter in parameters:
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise InvalidJobType(f"{owner}: parameter {parameter} must be an ordinary named parameter")
            hint = hints.get(parameter.name, Any)
            if hint in context_types:
                raise InvalidJobType(f"{owner}: the context must be the first parameter, not {parameter.name!r}")
            # An omitted argument is not stored: the default is the handler's, at the time it runs.
            fields.append(
                (parameter.name, hint)
                if parameter.default is parameter.empty
                else (parameter.name, hint | msgspec.UnsetType if hint is not Any else Any, msgspec.UNSET)
            )
        try:
            struct = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
        except TypeError as error:
            raise InvalidJobType(f"{owner}: {error}") from None
        self._codec: PayloadCodec[Any] = PayloadCodec(owner, struct, limit)
        self.output_hint = hints.get("return", Any)

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """The stored input of a call."""
        if args:
            kwargs = self._named(args, kwargs)
        return self._codec.encode(kwargs)

    def decode(self, data: bytes | str) -> dict[str, Any]:
        """The keyword arguments of the handler."""
        arguments = msgspec.structs.asdict(self._codec.decode(data))
        if self._has_defaults:
            return {name: value for name, value in arguments.items() if value is not msgspec.UNSET}
        return arguments

    def bound(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> inspect.BoundArguments:
        """By name, so that however a call is written, it is one call."""
        arguments = self._plain.bind(**self._named(args, kwargs))
        arguments.apply_defaults()
        return arguments

    def takes(self, function: Callable[..., object]) -> bool:
        """Whether a function can be called with the same arguments."""
        return can_be_called(function, (), dict.fromkeys(self.names))

    def _named(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        if len(args) > len(self.names):
            raise InvalidPayload(self.owner, f"takes {len(self.names)} arguments, {len(args)} were given")
        named = dict(zip(self.names, args, strict=False))
        if twice := named.keys() & kwargs.keys():
            raise InvalidPayload(self.owner, f"got more than one value for {min(twice)!r}")
        return {**named, **kwargs}


def can_be_called(function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    """As far as its signature tells."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some of those written in C have none
        return True
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def resolved_hints(owner: str, function: Callable[..., object]) -> dict[str, Any]:
    """A function's annotations, as types."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise InvalidJobType(f"{owner}: a type hint cannot be resolved: {error}") from None

"""Job types: what a function's signature says about its jobs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.errors import InvalidJobType, InvalidPayload
from holdfast.model.dedup import Dedup
from holdfast.model.payload import PayloadCodec
from holdfast.model.retry import Retry


@dataclass(frozen=True, slots=True, eq=False)
class JobType:
    """A name, its policies, and the codecs of its parameters and output."""

    name: str
    queue: str
    priority: int
    retry: Retry
    timeout: timedelta | None
    signature: CallSignature
    output: PayloadCodec[Any]
    expires: timedelta | None = None
    #: makes a key of a call's arguments
    dedup: Callable[..., Dedup | str | None] | None = None
    #: other names under which its jobs may be stored
    aliases: tuple[str, ...] = ()


class CallSignature:
    """The parameters of a handler, without its context."""

    def __init__(
        self, owner: str, function: Callable[..., object], context_types: tuple[type, ...], limit: int
    ) -> None:
        self.owner = owner
        hints = _hints(owner, function)
        parameters = list(inspect.signature(function).parameters.values())
        first = hints.get(parameters[0].name) if parameters else None
        self.context_type: type | None = first if first in context_types else None
        self.wants_context = self.context_type is not None
        if self.wants_context:
            parameters = parameters[1:]
        self.names = tuple(parameter.name for parameter in parameters)
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

    def _named(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        if len(args) > len(self.names):
            raise InvalidPayload(self.owner, f"takes {len(self.names)} arguments, {len(args)} were given")
        named = dict(zip(self.names, args, strict=False))
        if twice := named.keys() & kwargs.keys():
            raise InvalidPayload(self.owner, f"got more than one value for {min(twice)!r}")
        return {**named, **kwargs}


def _hints(owner: str, function: Callable[..., object]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise InvalidJobType(f"{owner}: a type hint cannot be resolved: {error}") from None

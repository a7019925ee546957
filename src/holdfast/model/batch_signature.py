"""The signature of a handler that takes many jobs at once."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.errors import InvalidJobType, InvalidPayload
from holdfast.model.job_type import can_be_called, resolved_hints
from holdfast.model.payload import PayloadCodec

_ONE = inspect.Signature([inspect.Parameter("item", inspect.Parameter.POSITIONAL_ONLY)])


class BatchSignature:
    """One parameter, `Batch[T]`: every job is enqueued with one `T`, which is its whole input."""

    wants_context = True

    def __init__(self, owner: str, function: Callable[..., object], batch_types: tuple[type, ...], limit: int) -> None:
        self.owner = owner
        hints = resolved_hints(owner, function)
        parameters = list(inspect.signature(function).parameters.values())
        first = hints.get(parameters[0].name) if parameters else None
        self.context_type: type | None = typing.get_origin(first) or first
        if len(parameters) != 1 or self.context_type not in batch_types:
            names = " or ".join(f"{batch.__name__}[…]" for batch in batch_types)
            raise InvalidJobType(f"{owner}: with batch= a handler has one parameter, annotated as {names}")
        self.names: tuple[str, ...] = (parameters[0].name,)
        item = typing.get_args(first)
        self._codec: PayloadCodec[Any] = PayloadCodec(owner, item[0] if item else Any, limit)
        self.output_hint = _output(hints.get("return", Any))

    def encode(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """The stored input of a call."""
        if len(args) != 1 or kwargs:
            raise InvalidPayload(self.owner, f"takes one argument by position, {len(args) + len(kwargs)} were given")
        return self._codec.encode(args[0])

    def decode(self, data: bytes | str) -> Any:
        """What one job was enqueued with."""
        return self._codec.decode(data)

    def bound(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> inspect.BoundArguments:
        """The one thing that a job is enqueued with."""
        return _ONE.bind(*args, **kwargs)

    def takes(self, function: Callable[..., object]) -> bool:
        """Whether a function can be called with that one thing."""
        return can_be_called(function, (None,), {})


def _output(hint: Any) -> Any:
    """What one job returns: of `list[T | Exception] | None` it is `T | None`."""
    members = _members(hint)
    lists = [member for member in members if member is not type(None)]
    if not lists:
        return None
    arguments = typing.get_args(lists[0])
    if len(lists) > 1 or not arguments or not issubclass(typing.get_origin(lists[0]) or object, Sequence):
        return Any
    wanted = [member for member in _members(arguments[0]) if not _is_exception(member)]
    if len(members) > len(lists):
        wanted.append(type(None))
    return typing.Union[tuple(wanted)] if wanted else Any  # noqa: UP007 - of a list that is known only now


def _is_exception(member: Any) -> bool:
    return isinstance(member, type) and issubclass(member, BaseException)


def _members(hint: Any) -> Sequence[Any]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)

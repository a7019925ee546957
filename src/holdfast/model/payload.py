"""JSON payloads from type hints: what may be stored, and what comes back.

What is stored was decoded with the receiver's own type before it was sent, so a payload that is accepted can be read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec

from holdfast.errors import InvalidJobType, InvalidPayload, PayloadTooLarge

T = TypeVar("T")

DEFAULT_LIMIT: Final = 1024 * 1024

#: half of what Python and SQLite can read, so that what is accepted here can be read on any stack
_DEEPEST: Final = 500
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKET = re.compile(rb"[\[\]{}]")


class PayloadCodec(Generic[T]):
    """Encodes and decodes values of one type."""

    def __init__(self, owner: str, annotation: Any, limit: int = DEFAULT_LIMIT) -> None:
        self.owner = owner
        self.limit = limit
        _refuse_unsupported(owner, annotation)
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(annotation, dec_hook=_from_json)
        self._decode = self._decoder.decode
        self._is_flat = _is_flat(annotation)
        self.accepts_null = self._accepts_null()

    def encode(self, value: object) -> bytes:
        """JSON bytes of `value`, or InvalidPayload that says where it does not fit."""
        try:
            data = _encode(value)
        except RecursionError:
            raise InvalidPayload(self.owner, "the value contains itself, or is nested too deeply") from None
        except UnicodeEncodeError as error:
            raise InvalidPayload(
                self.owner, f"text contains a lone surrogate ({error.object[error.start : error.end]!r})"
            ) from None
        except (TypeError, ValueError, OverflowError) as error:
            problem = _call_in(value) or error
            raise InvalidPayload(self.owner, f"{problem}; use JSON types, dataclasses or pydantic models") from None
        if len(data) > self.limit:
            raise PayloadTooLarge(self.owner, len(data), self.limit)
        if len(data) > 2 * _DEEPEST and data.count(b"[") + data.count(b"{") > _DEEPEST:
            _refuse_deep(self.owner, data)
        # msgspec writes NaN and infinity as null, and PostgreSQL cannot keep U+0000: search only where one may hide.
        # `in` takes bytes for a number first, and twice as long.
        if (not self._is_flat and data.find(b"null") >= 0) or data.find(b"\\u0000") >= 0:
            _refuse_unstorable(self.owner, value)
        try:
            self._decode(data)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
            if self._is_flat:
                _refuse_unstorable(self.owner, value)
            self.decode(data)  # which says what does not fit
        return data

    def decode(self, data: bytes | str) -> T:
        """The value that `data` stands for."""
        try:
            return self._decoder.decode(data)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise InvalidPayload(self.owner, str(error)) from None
        except RecursionError:
            raise InvalidPayload(self.owner, "the value is nested too deeply") from None

    def _accepts_null(self) -> bool:
        try:
            self._decoder.decode(b"null")
        except (msgspec.ValidationError, ValueError):
            return False
        return True


def to_json(value: object) -> bytes:
    """Plain JSON for documents that Holdfast itself writes."""
    return _encoder.encode(value)


def from_json(data: bytes | str) -> Any:
    """Plain JSON for documents that Holdfast itself reads."""
    return msgspec.json.decode(data)


def _to_json(value: object) -> object:
    """Pydantic models, recognised without importing pydantic."""
    dump = getattr(value, "model_dump", None)
    if dump is not None and hasattr(type(value), "__pydantic_validator__"):
        return dump(mode="json")
    raise TypeError(_unfit(value))


def _call_in(value: object) -> str | None:
    """A call is a struct, which msgspec takes apart; what it complains of then nobody has ever heard of."""
    for each in value.values() if isinstance(value, dict) else (value,):
        if isinstance(each, msgspec.Struct) and hasattr(each, "next_document"):
            return _unfit(each)
    return None


def _unfit(value: object) -> str:
    return f"{value!r:.80} of type {type(value).__qualname__} cannot be stored as JSON"


def _from_json(kind: type, value: object) -> object:
    if hasattr(kind, "__pydantic_validator__"):
        try:
            return kind.model_validate(value)  # type: ignore[attr-defined]  # checked by the line above
        except ValueError as error:
            raise ValueError(" ".join(str(error).split())) from None
    raise NotImplementedError(kind)


_encoder = msgspec.json.Encoder(enc_hook=_to_json)
_encode = _encoder.encode

#: what is never null
_SCALARS = (
    *(msgspec.inspect.IntType, msgspec.inspect.FloatType, msgspec.inspect.BoolType, msgspec.inspect.StrType),
    *(msgspec.inspect.DateTimeType, msgspec.inspect.DateType, msgspec.inspect.UUIDType),
)


def _is_flat(annotation: Any) -> bool:
    """Whether only what it refuses can have a null in it: a fixed set of values, none of which may be null."""
    kind = msgspec.inspect.type_info(annotation)
    return (
        isinstance(kind, msgspec.inspect.StructType)
        and kind.forbid_unknown_fields
        and all(isinstance(each.type, _SCALARS) for each in kind.fields)
    )


def _refuse_unsupported(owner: str, annotation: Any) -> None:
    """A type that could never be read back is refused when the job type is defined, not when a job runs."""
    try:
        pending = [msgspec.inspect.type_info(annotation)]
    except TypeError as error:
        raise InvalidJobType(f"{owner}: {error}") from None
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, msgspec.inspect.CustomType) and not hasattr(node.cls, "__pydantic_validator__"):
            raise InvalidJobType(
                f"{owner}: {node.cls.__module__}.{node.cls.__qualname__} cannot be read from JSON; "
                f"use JSON types, dataclasses, TypedDict, attrs or pydantic models"
            )
        pending.extend(_children(node))


def _children(node: object) -> Iterator[msgspec.inspect.Type]:
    for name in getattr(node, "__struct_fields__", ()):
        value = getattr(node, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, msgspec.inspect.Field):
                yield item.type
            elif isinstance(item, msgspec.inspect.Type):
                yield item


def _refuse_deep(owner: str, data: bytes) -> None:
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        if depth > _DEEPEST:
            raise InvalidPayload(owner, f"the value is nested too deeply: more than {_DEEPEST} levels")


def _refuse_unstorable(owner: str, value: object) -> None:
    pending = [("$", msgspec.to_builtins(value, enc_hook=_to_json))]
    while pending:
        path, item = pending.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise InvalidPayload(owner, f"{item} at {path} is not a JSON number")
        if isinstance(item, str) and "\x00" in item:
            raise InvalidPayload(owner, f"text at {path} contains U+0000, which PostgreSQL cannot store")
        if isinstance(item, dict):
            pending.extend((f"{path} (key)", key) for key in item)
            pending.extend((f"{path}.{key}", child) for key, child in item.items())
        elif isinstance(item, list | tuple | set | frozenset):
            pending.extend((f"{path}[{index}]", child) for index, child in enumerate(item))

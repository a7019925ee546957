"""Job types whose handlers live elsewhere: a function that has their signature and cannot be called."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.errors import InvalidJobType


def stand_in(name: str, parameters: object, output: Any) -> Callable[..., Any]:
    """Has the parameters that `parameters` names: a mapping of names to types, or a class with typed fields."""
    fields = _fields(name, parameters)

    def handled_elsewhere(**_arguments: object) -> Any:
        raise TypeError(f"{name} is declared here and handled elsewhere: there is nothing to call")

    handled_elsewhere.__name__ = name
    handled_elsewhere.__doc__ = f"`{name}`, handled elsewhere."
    handled_elsewhere.__annotations__ = {field: hint for field, (hint, _) in fields.items()} | {"return": output}
    handled_elsewhere.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what inspect looks for
        [
            inspect.Parameter(
                field, inspect.Parameter.KEYWORD_ONLY, default=inspect.Parameter.empty if is_required else None
            )
            for field, (_, is_required) in fields.items()
        ]
    )
    return handled_elsewhere


def _fields(name: str, parameters: object) -> dict[str, tuple[Any, bool]]:
    """Type of each field, and whether it must be given."""
    if parameters is None:
        return {}
    if isinstance(parameters, Mapping):
        return {field: (hint, True) for field, hint in parameters.items()}
    if isinstance(parameters, type) and hasattr(parameters, "__pydantic_validator__"):
        found = parameters.model_fields  # type: ignore[attr-defined]  # pydantic's
        return {field: (info.annotation, info.is_required()) for field, info in found.items()}
    try:
        node = msgspec.inspect.type_info(parameters)
        hints = typing.get_type_hints(parameters, include_extras=True)
    except (TypeError, NameError, AttributeError) as error:
        raise InvalidJobType(f"{name}: input={parameters!r}: {error}") from None
    fields: tuple[msgspec.inspect.Field, ...] | None = getattr(node, "fields", None)
    if fields is None:
        raise InvalidJobType(
            f"{name}: input={parameters!r} must be a mapping of names to types, or a class with typed fields "
            f"(dataclass, TypedDict, msgspec, attrs or pydantic)"
        )
    return {field.name: (_bare(hints[field.name]), field.required) for field in fields}


def _bare(hint: Any) -> Any:
    """Without what TypedDict says about keys."""
    if typing.get_origin(hint) in (typing.Required, typing.NotRequired):
        return typing.get_args(hint)[0]
    return hint

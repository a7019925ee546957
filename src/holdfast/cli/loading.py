"""From MODULE:APP to the App it names."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from types import ModuleType

import click

from holdfast.app import App


class ImportFailed(Exception):
    """The user's module raised while it was imported; its own exception is the cause."""

    def __init__(self, what: str, error: Exception) -> None:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
        where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        super().__init__(f"{what} failed: {type(error).__name__}: {error}{where}")


def load_app(target: str) -> App:
    """Import the module, with the current directory on the path, and take the app from it.

    `shop.jobs:app` names an App, or a function without parameters that returns one.
    """
    module_name, separator, attribute = target.partition(":")
    if not separator or not module_name or not attribute:
        raise click.BadParameter(
            f"{target!r} must look like module:app, for example shop.jobs:app", param_hint="MODULE:APP"
        )
    found = _attribute(_module(module_name), attribute)
    if not isinstance(found, App) and callable(found):
        try:
            found = found()
        except Exception as error:
            raise ImportFailed(f"calling {target}", error) from error
    if not isinstance(found, App):
        raise click.BadParameter(
            f"{target} is {found!r:.80}, not a holdfast.App or a function that returns one", param_hint="MODULE:APP"
        )
    return found


def _module(name: str) -> ModuleType:
    here = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only the module that was asked for is the caller's typing error; one that it imports is a failure of its own.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise click.BadParameter(
                f"there is no module {error.name!r}; looked in {here} and in the environment {sys.prefix}",
                param_hint="MODULE:APP",
            ) from None
        raise ImportFailed(f"importing {name}", error) from error
    except Exception as error:
        raise ImportFailed(f"importing {name}", error) from error


def _attribute(module: ModuleType, path: str) -> object:
    found: object = module
    for name in path.split("."):
        if not hasattr(found, name):
            apps = sorted(key for key, value in vars(module).items() if isinstance(value, App))
            hint = f"; its apps are {', '.join(apps)}" if apps else ""
            raise click.BadParameter(f"module {module.__name__!r} has no {path!r}{hint}", param_hint="MODULE:APP")
        found = getattr(found, name)
    return found

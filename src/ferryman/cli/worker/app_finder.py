"""Finds the application that a command line names as `MODULE` or `MODULE:APP`."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from difflib import get_close_matches
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from ferryman import App
from ferryman.errors import ConfigurationError

if TYPE_CHECKING:
    from types import ModuleType

HOW = "Give MODULE or MODULE:APP, such as tasks or shop.tasks:app."


class AppNotFoundError(ConfigurationError):
    """The module does not exist, cannot be imported, or has no application or several."""


def find_app(target: str) -> App:
    """Import the module, from the current directory too, and return its application."""
    name, _, attribute = target.partition(":")
    _check_spelling(name)
    _look_here()
    module = _imported(name)
    return _named(module, attribute) if attribute else _only(module)


def check_module(target: str) -> None:
    """Raise if there is no such module. Imports nothing, so a broken module passes."""
    name = target.partition(":")[0]
    _check_spelling(name)
    _look_here()
    top, *parts = name.split(".")
    if top in sys.modules:
        return
    found = importlib.util.find_spec(top)
    if found is None:
        raise _missing(name)
    for part in parts:
        folders = [Path(folder) for folder in found.submodule_search_locations or ()]
        if not all(folder.is_relative_to(Path.cwd()) for folder in folders):
            return  # an installed package may find its modules in its own way
        found = PathFinder.find_spec(f"{found.name}.{part}", [*map(str, folders)])
        if found is None:
            raise _missing(name)


def _look_here() -> None:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _check_spelling(name: str) -> None:
    if name.endswith(".py") or "/" in name:
        module = name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise AppNotFoundError(f"{name!r} is a file name. Give the module instead: {module!r}.")
    if not all(part.isidentifier() for part in name.split(".")):
        raise AppNotFoundError(f"{name!r} is not the name of a module. {HOW}")


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise _missing(name) from None
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _missing(name: str) -> AppNotFoundError:
    here = sorted(_modules_here())
    # A misspelling, or the right name in another folder: `tasks` for `shop.tasks`.
    guesses = get_close_matches(name, here, n=1) or [each for each in here if each.endswith(f".{name}")]
    parent, _, last = name.rpartition(".")
    if parent in here and last:
        hint = f"Did you mean {f'{parent}:{last}'!r}?"
    elif guesses:
        hint = f"Did you mean {guesses[0]!r}?"
    elif here:
        hint = f"Modules here: {', '.join(here[:8])}{', …' if len(here) > 8 else ''}."  # noqa: PLR2004 - enough to see
    else:
        hint = "There is no Python file here; `ferryman new` writes one to start from."
    return AppNotFoundError(f"there is no module {name!r} in {Path.cwd()} or among the installed packages. {hint}")


def _modules_here() -> set[str]:
    files = [*Path().glob("*.py"), *Path().glob("*/*.py")]
    names = {".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files}
    return {name for name in names if all(part.isidentifier() for part in name.split("."))}


def _broken(name: str, error: BaseException) -> AppNotFoundError:
    reason = traceback.format_exception_only(error)[-1].strip()
    return AppNotFoundError(f"importing {name!r} failed at {_place(error)}: {reason}")


def _place(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    # The last line of the user's own code says more than the depths of a library.
    own = [frame for frame in frames if "site-packages" not in frame.filename and frame.filename != __file__]
    last = (own or frames)[-1]
    return f"{_short(last.filename)}:{last.lineno}"


def _short(file: str) -> str:
    return str(Path(file).relative_to(Path.cwd())) if Path(file).is_relative_to(Path.cwd()) else file


def _named(module: ModuleType, attribute: str) -> App:
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise AppNotFoundError(f"{module.__name__!r} has no {attribute!r}. {_apps_listed(module)}")
        found = getattr(found, part)
    if not isinstance(found, App):
        kind = type(found).__name__
        raise AppNotFoundError(f"{module.__name__}:{attribute} is of type {kind}, not an App. {_apps_listed(module)}")
    return found


def _only(module: ModuleType) -> App:
    apps = _apps_of(module)
    if "app" in apps:
        return apps["app"]
    distinct = {id(app): app for app in apps.values()}
    if len(distinct) != 1:
        raise AppNotFoundError(f"cannot tell which App of {module.__name__!r} to run. {_apps_listed(module)}")
    return next(iter(distinct.values()))


def _apps_of(module: ModuleType) -> dict[str, App]:
    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _apps_listed(module: ModuleType) -> str:
    names = [f"{module.__name__}:{name}" for name in _apps_of(module)]
    if not names:
        return "It has no App: add a line such as `app = App()`."
    return f"It has: {', '.join(names)}."

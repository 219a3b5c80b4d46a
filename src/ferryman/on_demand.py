"""Imports the public names of a package at their first use, so that programs start quickly."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def names_on_demand(
    package: str, homes: Mapping[str, str], *, modules: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make the functions `__getattr__` and `__dir__` of a package.

    homes: modules, each with the names that it defines, separated by spaces
    modules: public modules of the package, separated by spaces, which are also names of the package

    Hide the result from type checkers, which would believe that the package has every name. Show them the imports.
    """
    module_of = {name: module for module, names in homes.items() for name in names.split()}
    own_modules = {*modules.split()}
    namespace = vars(sys.modules[package])

    def get(name: str) -> object:
        if name in own_modules:
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(module_of[name]), name)
        return value

    def names() -> list[str]:
        return sorted({*namespace, *module_of, *own_modules})

    return get, names

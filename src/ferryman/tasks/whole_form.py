"""Payloads that are one structured value: the only parameter of a function, or an instance of a task class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.payloads import is_pydantic_model
from ferryman.tasks.forms import Arguments, ArgumentsError, is_null
from ferryman.tasks.mismatches import mismatch_of_model

if TYPE_CHECKING:
    from ferryman.tasks.objects import ObjectDecoder
    from ferryman.tasks.parameters import Parameter


class WholeForm(msgspec.Struct, frozen=True):
    """A payload that is the value of the function's only parameter. Null selects its default."""

    parameter: Parameter
    decoder: ObjectDecoder
    noun: str = "payload field"

    def gather(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the value of the only parameter."""
        name = self.parameter.name
        for other in kwargs.keys() - {name}:
            raise ArgumentsError(f"unknown argument {other!r}; the whole payload is the argument {name!r}")
        given = [*args, *kwargs.values()]
        if len(given) > 1:
            raise ArgumentsError(f"{len(given)} arguments were given, but it takes 1")
        if not given and self.parameter.is_required:
            raise ArgumentsError(f"missing argument {name!r}")
        return given[0] if given else None

    def read(self, payload_json: str) -> Any:
        """Return the value of the only parameter."""
        if is_null(payload_json) and not self.parameter.is_required:
            return None
        return self.decoder.decode(payload_json)

    def check(self, payload_json: str) -> None:
        """Read the payload back."""
        self.read(payload_json)

    def arguments(self, value: Any) -> Arguments:
        """Return the only argument, or none to use its default."""
        if value is None and not self.parameter.is_required:
            return Arguments()
        return Arguments(kwargs={self.parameter.name: value})


class InstanceForm(msgspec.Struct, frozen=True):
    """A payload that is an instance of a task class."""

    task_class: type
    decoder: ObjectDecoder
    noun: str = "field"

    def gather(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the given instance, or one made from the arguments."""
        if len(args) == 1 and not kwargs and type(args[0]) is self.task_class:
            return args[0]
        try:
            return self.task_class(*args, **kwargs)
        except (TypeError, ValueError) as error:
            refused = is_pydantic_model(self.task_class) and isinstance(error, ValueError)
            raise ArgumentsError(mismatch_of_model(error).worded(self.noun) if refused else str(error)) from None

    def read(self, payload_json: str) -> Any:
        """Decode the instance."""
        return self.decoder.decode(payload_json)

    def check(self, payload_json: str) -> None:
        """Read the payload back."""
        self.read(payload_json)

    def arguments(self, value: Any) -> Arguments:
        """Return the instance, as the `self` of its `run`."""
        return Arguments(args=(value,))

"""The function or class behind a task, and the shape of its payload."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from ferryman.errors import TaskError
from ferryman.tasks.annotations import signature_of
from ferryman.tasks.decoders import naming
from ferryman.tasks.keyword_form import keyword_form
from ferryman.tasks.objects import is_structured, object_decoder
from ferryman.tasks.parameters import Parameters, read_parameters, shown
from ferryman.tasks.whole_form import InstanceForm, WholeForm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferryman.tasks.forms import PayloadForm


class Shape(msgspec.Struct, frozen=True):
    """The form of a task's payload, and the name of the parameter that receives the context."""

    form: PayloadForm
    context: str | None
    signature: str


class Definition:
    """A function or class that became a task.

    Its shape is read at once, so that a mistake shows where it was made. Only a name that does not exist yet is looked
    up again at first use: with `from __future__ import annotations` it may be defined further down.
    """

    def __init__(self, subject: Any, near: Mapping[str, Any] | None) -> None:
        self.subject = subject
        self.task_class: type | None = subject if isinstance(subject, type) else None
        self.function: Callable[..., Any] = subject if self.task_class is None else _run_of(subject)
        self.is_async = _is_async(self.function)
        self._shape = self._read_early(near)

    @property
    def shape(self) -> Shape:
        """The shape of the payload; `TaskError` if an annotation names something that does not exist."""
        if self._shape is None:
            self._shape = self._read_late()
        return self._shape

    @property
    def signature(self) -> str:
        """The name and the parameters, as far as annotations could be resolved."""
        return f"{self.name}(…)" if self._shape is None else self._shape.signature

    @property
    def name(self) -> str:
        """The name in the source; empty if there is none."""
        return str(getattr(self.subject, "__name__", ""))

    @property
    def place(self) -> str:
        """The module, file and line, for messages."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        return (
            f"{getattr(self.subject, '__module__', '?')}.{getattr(self.subject, '__qualname__', self.subject)}{where}"
        )

    def _read_early(self, near: Mapping[str, Any] | None) -> Shape | None:
        try:
            return self._read(near)
        except NameError:
            return None

    def _read_late(self) -> Shape:
        try:
            return self._read(None)
        except NameError as error:
            raise TaskError(
                f"task {self.place}: an annotation cannot be resolved: {error}. Payloads are checked against the "
                f"annotations, so the names in them must exist in the module when the program runs, "
                f"not only under `if TYPE_CHECKING:`, and not only inside a function."
            ) from None

    def _read(self, near: Mapping[str, Any] | None) -> Shape:
        try:
            return self._shape_of_function(near) if self.task_class is None else self._shape_of_class(near)
        except TaskError as error:
            raise TaskError(f"task {self.place}: {error}") from None

    def _shape_of_function(self, near: Mapping[str, Any] | None) -> Shape:
        parameters = read_parameters(self.function, near)
        _refuse_method(parameters, self.subject)
        return Shape(_form(parameters), parameters.context, f"{self.name or 'task'}{parameters}")

    def _shape_of_class(self, near: Mapping[str, Any] | None) -> Shape:
        if not is_structured(self.subject):
            raise TaskError(
                "a plain class has no fields that a payload can fill: a task class is a dataclass, a pydantic model, a "
                "msgspec struct or an attrs class"
            )
        fields = signature_of(self.subject).parameters
        if "IDENTIFIER" in fields:
            raise TaskError("IDENTIFIER is a field, and would be in every payload; annotate it as `ClassVar[str]`")
        listed = ", ".join(shown(item, item.annotation) for item in fields.values())
        form = InstanceForm(self.subject, object_decoder(self.subject))
        return Shape(form, _context_of_run(self.function, near), f"{self.name}({listed})")


def _form(parameters: Parameters) -> PayloadForm:
    match parameters:
        # A name that begins with `_` is that of a key which the queue adds, such as `_cron`: one key of several.
        case Parameters(from_payload=(only,), extra=None) if not only.name.startswith("_"):
            with naming(only):
                if is_structured(only.type):
                    return WholeForm(only, object_decoder(only.type))
    return keyword_form(parameters)


def _refuse_method(parameters: Parameters, subject: Any) -> None:
    # A plain function may have a parameter of any name; only one that is written inside a class is a method.
    inside = getattr(subject, "__qualname__", "").rpartition("<locals>.")[2]
    if "." in inside and parameters.from_payload and parameters.from_payload[0].name == "self":
        raise TaskError("a method cannot be a task. Make it a function, or make the whole class a task with `run`")


def _run_of(subject: type) -> Callable[..., Any]:
    run = inspect.getattr_static(subject, "run", None)
    if not inspect.isfunction(run):
        raise TaskError(
            f"class {subject.__qualname__} cannot be a task: it has no method `run`. "
            f"Give it `async def run(self, ctx: WorkerContext)`, or `def run(self)`."
        )
    return run


def _context_of_run(run: Callable[..., Any], near: Mapping[str, Any] | None) -> str | None:
    """Return the name of the parameter of `run` after `self`: it receives the context, under any name."""
    parameters = read_parameters(run, near)
    others = [item for item in parameters.from_payload[1:] if item.is_required]
    if others and (parameters.context or len(others) > 1 or others[0].type is not Any):
        raise TaskError(f"`run` takes `self` and the context, and cannot take {others[-1]}; make it a field")
    return others[0].name if others else parameters.context


def _is_async(function: Callable[..., Any]) -> bool:
    # A decorated function counts as its decorator left it; an object counts by its `__call__`.
    bodies = (function, getattr(function, "__call__", None))  # noqa: B004
    if any(inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body) for body in bodies):
        raise TaskError(f"{function!r} cannot be a task: it is a generator, and calling it would run nothing")
    return any(inspect.iscoroutinefunction(body) for body in bodies)

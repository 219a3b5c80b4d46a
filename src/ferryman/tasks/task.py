"""A task: a function, the payload that it takes, and how its jobs are scheduled."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from ferryman.errors import InvalidPayloadError, TaskError
from ferryman.jobs import JobSpec, NewJob, check_identifier
from ferryman.payloads import encode_payload, to_plain
from ferryman.tasks.enqueuing import Enqueuing
from ferryman.tasks.forms import Arguments, ArgumentsError
from ferryman.tasks.keyword_form import KeywordForm
from ferryman.tasks.mismatches import MismatchError
from ferryman.tasks.queue_templates import QueueTemplate
from ferryman.tasks.upgrades import check_upgrade, upgraded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime, timedelta

    from ferryman.context import WorkerContext
    from ferryman.jobs import Job, JobKeyMode
    from ferryman.tasks.definitions import Definition
    from ferryman.tasks.enqueuing import JobAdder
    from ferryman.tasks.forms import PayloadForm
    from ferryman.tasks.run_options import RunOptions
    from ferryman.tasks.upgrades import Upgrade

P = ParamSpec("P")
R = TypeVar("R")

_made: WeakValueDictionary[tuple[tuple[str, str], str], Task[..., Any]] = WeakValueDictionary()
"""Every task by its place in the source, since a class, or an undecorated function, does not know its task."""


class Task(Generic[P, R]):
    """A function or class decorated with `@app.task`. Calling it runs the function directly.

    P are the parameters of `job`, without the context; R is the function's result.

    identifier: the name that jobs carry in the database
    function: the function that the worker runs; for a task class, its `run`
    task_class: the class, if the task was defined by one
    defaults: the schedule of its jobs, unless a job has its own
    running: how its jobs are run
    is_async: True if the function must be awaited
    aliases: earlier names of the task; it also runs jobs with these names
    adder: adds the jobs of `enqueue`; set by the application
    """

    def __init__(
        self,
        definition: Definition,
        identifier: str,
        defaults: JobSpec,
        running: RunOptions,
        *,
        aliases: Iterable[str] = (),
        upgrade: Upgrade | None = None,
    ) -> None:
        self.identifier = check_identifier(identifier)
        self.aliases = _checked_aliases(aliases, identifier)
        self._upgrade = check_upgrade(upgrade)
        self.defaults = defaults
        self.running = running
        self.function: Callable[..., R] = definition.function
        self.task_class = definition.task_class
        self.is_async = definition.is_async
        self.adder: JobAdder | None = None
        self._definition = definition
        self._queue_template = QueueTemplate.of(defaults.queue_name)
        # Not the attributes: those of a class would hide ours.
        functools.update_wrapper(self, definition.subject, updated=())
        _made[_place_of(definition.subject), identifier] = self

    def __call__(self, /, *args: Any, **kwargs: Any) -> R:
        """Run the function."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.identifier!r}: {self.signature}>"

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Every name that its jobs may have: the identifier and the aliases."""
        return self.identifier, *self.aliases

    @property
    def signature(self) -> str:
        """The name, and the parameters of `job`."""
        return self._definition.signature

    @property
    def place(self) -> str:
        """The module, file and line of the task, for messages."""
        return self._definition.place

    def check(self) -> None:
        """Raise `TaskError` if an annotation names something that does not exist."""
        _ = self._definition.shape

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Describe a job of this task, for `add_job`. Takes the arguments of the function, without the context.

        `InvalidPayloadError` if the function cannot be called with them, or JSON cannot hold them.
        """
        shape = self._definition.shape
        if shape.context is not None and shape.context in kwargs:
            raise self._refusal(f"argument {shape.context!r} is the context, which the worker passes; leave it out")
        try:
            payload_json = self._stored(shape.form, shape.form.gather(args, kwargs))
        except ArgumentsError as error:
            raise self._refusal(str(error)) from None
        return NewJob(self.identifier, payload_json, self.spec_for(payload_json))

    def batch_job(self, items: Iterable[Any]) -> NewJob:
        """Describe one job whose payload is a list of items, for a task whose only parameter is a list."""
        form = self._definition.shape.form
        if not isinstance(form, KeywordForm) or form.list_name is None:
            raise self._refusal("a batch job needs a task whose only parameter is a list")
        listed = list(items)
        if not listed:
            raise self._refusal("batch job payload must contain at least one item")
        if self._queue_template is not None:
            raise self._refusal(f"queue_name {self.defaults.queue_name!r} needs fields, and a list of items has none")
        payload_json = self._stored(form, {form.list_name: listed})
        return NewJob(self.identifier, payload_json[payload_json.index(":") + 1 : -1], self.defaults)

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Add a job with these arguments, through the application's own client.

        `options(…)` before it says when and how: `await send_email.options(delay=…).enqueue(to=…)`.
        """
        return await self._adding().add(self.job(*args, **kwargs), None, notify=True, using=None)

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Add a job from blocking code, in any thread; otherwise like `enqueue`."""
        return self._adding().add_blocking(self.job(*args, **kwargs), None, notify=True, using=None)

    def options(
        self,
        *,
        queue_name: str | None = None,
        run_at: datetime | None = None,
        delay: timedelta | None = None,
        max_attempts: int | None = None,
        job_key: str | None = None,
        job_key_mode: JobKeyMode | None = None,
        priority: int | None = None,
        flags: Sequence[str] | None = None,
        notify: bool = True,
        using: Any = None,
    ) -> Enqueuing[P]:
        """Set the scheduling for `enqueue` or `enqueue_sync`: the fields of `JobSpec`, and two options of `add_job`.

        notify: False adds the job without waking idle workers, which then find it by polling
        using: your own connection or session; the job is then part of your transaction
        """
        spec = JobSpec(
            queue_name=queue_name,
            run_at=run_at,
            delay=delay,
            max_attempts=max_attempts,
            job_key=job_key,
            job_key_mode=job_key_mode,
            priority=priority,
            flags=flags,
        )
        return Enqueuing(self.job, self._adding(), spec, notify=notify, using=using)

    def _adding(self) -> JobAdder:
        if self.adder is None:
            raise TaskError(f"task {self.identifier!r} belongs to no application, so nothing was added")
        return self.adder

    @property
    def takes_context(self) -> bool:
        """True if the function has a parameter for the context."""
        return self._definition.shape.context is not None

    def decode(self, payload_json: str, context: WorkerContext | None = None) -> Arguments:
        """Decode a payload into the arguments of `function`; `InvalidPayloadError` if it does not fit this task."""
        shape = self._definition.shape
        if self._upgrade is not None:
            payload_json = upgraded(payload_json, self._upgrade)
        try:
            arguments = shape.form.arguments(shape.form.read(payload_json))
        except MismatchError as error:
            raise InvalidPayloadError(
                f"task {self.identifier!r}: {error.worded('payload field')}; it takes {shape.signature}"
            ) from None
        if shape.context is None:
            return arguments
        return Arguments(arguments.args, {**arguments.kwargs, shape.context: context})

    def spec_for(self, payload_json: str) -> JobSpec:
        """Return the default scheduling of a job with this payload; `InvalidPayloadError` if it gives no queue name."""
        if self._queue_template is None:
            return self.defaults
        try:
            return replace(self.defaults, queue_name=self._queue_template.name_for(payload_json))
        except ArgumentsError as error:
            raise self._refusal(str(error)) from None

    def _stored(self, form: PayloadForm, value: Any) -> str:
        """Encode `value` as JSON, and read it back once: a worker can decode every payload that is accepted here."""
        try:
            payload_json = encode_payload(value)
        except InvalidPayloadError as error:
            payload_json = self._stored_by_type(form, value, error)
        try:
            form.check(payload_json)
        except MismatchError as error:
            raise self._refusal(error.worded(form.noun)) from None
        return payload_json

    def _stored_by_type(self, form: PayloadForm, value: Any, refused: InvalidPayloadError) -> str:
        """Encode values that only decode correctly by their annotation: bytes, sets, keys that are not strings."""
        try:
            payload_json = encode_payload(to_plain(value))
            comes_back = form.read(payload_json) == value
        except (InvalidPayloadError, MismatchError, NotImplementedError, RecursionError, TypeError, ValueError):
            comes_back = False
        if not comes_back:
            raise InvalidPayloadError(f"{self.signature}: {refused}") from None
        return payload_json

    def _refusal(self, problem: str) -> InvalidPayloadError:
        return InvalidPayloadError(f"{self.signature}: {problem}; nothing was added")


def _checked_aliases(aliases: Iterable[str], identifier: str) -> tuple[str, ...]:
    if isinstance(aliases, str):
        raise TaskError(f"aliases must be a list of identifiers; got the single string {aliases!r}")
    checked = tuple(dict.fromkeys(map(check_identifier, aliases)))
    if identifier in checked:
        raise TaskError(f"{identifier!r} is the identifier of the task, and cannot be one of its aliases too")
    return checked


def made_of(subject: object, identifier: str) -> Task[..., Any] | None:
    """Find the task with this identifier that was made of this class or function; None if there is none."""
    return _made.get((_place_of(subject), identifier))


def all_made() -> list[Task[..., Any]]:
    """List every task of this process."""
    return [*_made.values()]


def _place_of(subject: object) -> tuple[str, str]:
    return getattr(subject, "__module__", ""), getattr(subject, "__qualname__", "")

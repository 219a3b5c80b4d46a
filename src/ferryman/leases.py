"""The claim that a handler has on its job: completes the job in the handler's own transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ferryman.database.blocking_sessions import SyncSession
from ferryman.database.sessions import AsyncSession
from ferryman.errors import LeaseLostError
from ferryman.queries.settle import complete_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferryman.database.identifiers import SchemaName
    from ferryman.database.steps import Steps
    from ferryman.queries.settle import ClaimKey


class Lease:
    """The claim that a handler has on its job: completes the job in the handler's transaction, unless it was lost.

    The job is completed only if it still carries the worker's id and the moment of the claim. The worker renews the
    lock of a long job at any time, so there may be several such moments. Each of them belongs to this claim alone.

    keys: the claim, once for each token that it may have
    """

    __slots__ = ("_keys", "_schema", "_worker_id", "is_lost", "is_used", "learn_keys", "on_use")

    def __init__(self, schema: SchemaName, worker_id: str, keys: Sequence[ClaimKey]) -> None:
        self._schema = schema
        self._worker_id = worker_id
        self._keys = [*keys]
        self.is_lost = False
        """True once the worker has lost the job, as after it was declared dead."""
        self.is_used = False
        """True once the handler has completed the job in its own transaction."""
        self.on_use: Callable[[], None] | None = None
        self.learn_keys: Callable[[], Sequence[ClaimKey]] = lambda: self._keys
        """Asks the worker for the current keys of the claim."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Lease, (self._schema, self._worker_id, [*self.learn_keys()])

    async def complete_in(self, using: Any) -> None:
        """Complete the job in the open transaction of an async connection."""
        await AsyncSession(_no_pool, self._schema).run(self._complete(using))

    def complete_in_blocking(self, using: Any) -> None:
        """Complete the job in the open transaction of a blocking connection."""
        SyncSession(_no_pool, self._schema).run(self._complete(using))

    def _complete(self, using: Any) -> Steps[None]:
        is_last_try = False
        while True:
            [(done,)] = yield complete_claims(self._worker_id, self._keys).on(using)
            if done is None:
                break
            keys = [*self.learn_keys()]
            is_news = keys != self._keys
            if len(keys) == 1 or (is_last_try and not is_news):
                self._lose()
            # A lock that is renewed at the very moment of a call is neither old nor new to it, but to a second one.
            is_last_try = not is_news
            self._keys = keys
        self.is_used = True
        if self.on_use is not None:
            self.on_use()

    def _lose(self) -> NoReturn:
        self.is_lost = True
        raise LeaseLostError(
            f"job {self._keys[0][0]} no longer belongs to this worker, so it was not completed. Another attempt may "
            f"be running. Let this error roll back your transaction, so that its work is not done twice."
        )


def _no_pool() -> NoReturn:
    raise AssertionError("a lease is used on the caller's connection only")

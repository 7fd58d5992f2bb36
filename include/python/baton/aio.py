# SPDX-License-Identifier: BSD-3-Clause
"""Events in an asyncio loop.

    async with baton.aio.Events(context) as events:
        event = await events.want("r1", "prefill0", blocks, num_tokens)

Inside the block, the loop watches the context's descriptor and takes all events of the context in its own thread; with
Progress.CALLER this is what moves blocks. Context.poll and Context.wait raise InUse meanwhile.
"""
from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Generator

from ._context import Context, InUse
from ._declarations import EAGAIN, ESTATE, EventType
from ._events import Event
from ._number import Error

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")


KEPT_MAX = 65536  # events that wait for who iterates


class GivenUp(Error):
    """A call has failed, and its blocks are still Baton's: leave them alone until transfer.ended is done.

    After the loss of a rank that may not be before the context is closed.
    """

    def __init__(self, event: Event, transfer: Transfer) -> None:
        super().__init__(str(event.exception() or "the call was given up"))
        self.errno = event.error
        self.event = event
        self.transfer = transfer


def _look(future: asyncio.Future[Event]) -> object:
    """Nobody need ask for an error."""
    return future.cancelled() or future.exception()


class _Answer:
    """A future that is done when the library says so. Others get one that they may cancel, as a wait with a timeout
    does: it says nothing of the call, and the next one who asks gets another.
    """

    def __init__(self) -> None:
        self.future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self.future.add_done_callback(_look)
        self._shown = self.future

    def shown(self) -> asyncio.Future[Event]:
        if self.future.done():
            return self.future
        if self._shown is self.future or self._shown.cancelled():
            self._shown = asyncio.shield(self.future)
            self._shown.add_done_callback(_look)
        return self._shown


class Transfer:
    """An offer or want that was accepted. `await transfer` gives its event if it is done, else raises the reason.

    Where the await returns or raises, the blocks are the caller's again, with one exception: GivenUp. So a task that is
    cancelled inside the await cancels the call, and then waits for its answer, which comes by its deadline.
    """

    def __init__(self, context: Context, call: int) -> None:
        self.id = call
        self._answered, self._ended = _Answer(), _Answer()
        self._context = context

    @property
    def answered(self) -> asyncio.Future[Event]:
        """Done with the GIVEN_UP or the terminal event."""
        return self._answered.shown()

    @property
    def ended(self) -> asyncio.Future[Event]:
        """Done with the terminal event."""
        return self._ended.shown()

    def cancel(self) -> None:
        """Asks that the call ends. It still has its answer."""
        self._context.cancel(self.id)

    def _on_event(self, event: Event) -> None:
        for answer in (self._answered, self._ended) if event.is_terminal else (self._answered,):
            if not answer.future.done():
                answer.future.set_result(event)

    def _on_error(self, error: Error) -> None:
        for answer in (self._answered, self._ended):
            if not answer.future.done():
                answer.future.set_exception(error)

    async def _wait(self) -> Event:
        cancelled: asyncio.CancelledError | None = None
        answered = self._answered.future
        while not answered.done():
            try:
                await asyncio.wait([answered])
            except asyncio.CancelledError as error:
                if cancelled is None:
                    try:
                        self.cancel()
                    except Error:  # no room to say so: the call then ends by its deadline
                        pass
                cancelled = error
        event = answered.result()
        if not event.is_terminal:
            raise GivenUp(event, self) from cancelled
        if cancelled is not None:
            raise cancelled
        reason = event.exception()
        if reason is not None:
            raise reason
        return event

    def __await__(self) -> Generator[Any, None, Event]:
        return self._wait().__await__()


def _with_arguments_of(
        call: Callable[Concatenate[Context, P], object],
) -> Callable[[Callable[..., Transfer]], Callable[Concatenate[Events, P], Transfer]]:
    """For type checkers: a method of Events that takes what a method of Context takes."""
    return lambda method: method


class Events:
    """The events of a context, in the running loop. Iterate over it for all that no Transfer stands for: events of
    calls made by the context's own offer and want, and verdicts. Those that nobody takes are kept; where KEPT_MAX are, the
    reader ends as EAGAIN.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._transfers: dict[int, Transfer] = {}
        self._queue: asyncio.Queue[Event | Error] | None = None  # made in the loop that it belongs to
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fd = -1

    async def __aenter__(self) -> Events:
        self._fd = self._context.event_fd()
        if self._context._is_watched():
            raise InUse("another reader of events is attached to this context")
        try:
            self._context.progress()  # with Progress.CALLER, this thread lends itself from now on
        except ESTATE:
            pass  # the reactor has a thread of its own, or the context is not started yet
        self._loop, self._queue = asyncio.get_running_loop(), asyncio.Queue()
        self._loop.add_reader(self._fd, self._take)
        self._context._readers[id(self)] = self._loop
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self._stop(ESTATE("the reader of events was left before the call was answered"))

    def _stop(self, why: Error) -> None:
        self._loop = None
        loop = self._context._readers.pop(id(self), None)
        if loop is not None:  # else it was stopped before, or this is a forked child, whose epoll set is the parent's
            loop.remove_reader(self._fd)
        transfers, self._transfers = self._transfers, {}
        for transfer in transfers.values():
            transfer._on_error(why)
        if self._queue is not None:
            self._queue.put_nowait(why)

    def _take(self) -> None:
        assert self._queue is not None
        try:
            events = self._context.poll(_of_reader=True)
        except Error as error:
            self._stop(error)
            return
        for event in events:
            transfer = self._transfers.get(event.id)
            if transfer is None or event.type == EventType.VERDICT:
                self._queue.put_nowait(event)
                continue
            transfer._on_event(event)
            if event.is_terminal:
                del self._transfers[event.id]
        if self._queue.qsize() > KEPT_MAX:
            self._stop(EAGAIN(f"{self._queue.qsize()} events wait for a loop to iterate over them"))

    @_with_arguments_of(Context.offer)
    def offer(self, *args: Any, **named: Any) -> Transfer:
        """Context.offer, with a Transfer."""
        self._check()
        return self._keep(Transfer(self._context, self._context.offer(*args, **named)))

    @_with_arguments_of(Context.want)
    def want(self, *args: Any, **named: Any) -> Transfer:
        """Context.want, with a Transfer."""
        self._check()
        return self._keep(Transfer(self._context, self._context.want(*args, **named)))

    def _check(self) -> None:
        if self._loop is not asyncio.get_running_loop():
            raise ESTATE("use the reader of events inside its `async with`, in the same loop")

    def _keep(self, transfer: Transfer) -> Transfer:
        self._transfers[transfer.id] = transfer
        return transfer

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._queue is None:
            raise ESTATE("the reader of events was not entered")
        event = await self._queue.get()
        if isinstance(event, Error):
            self._queue.put_nowait(event)  # for whoever else iterates
            raise event
        return event

# SPDX-License-Identifier: BSD-3-Clause
"""The context: one rank's part of one Baton world.

Two things make it safe, and neither costs a call anything. The library's context is one object of cffi's, and a call
reads it in the same step in which it hands it over. So after a close a call gets NULL, which the library refuses; and
whoever closes knows from the count of references whether a thread is still inside a call (_memory.py).
"""
from __future__ import annotations

import ctypes
import itertools
import os
import select
import sys
import threading
import time
import warnings
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterator, Protocol, Sequence, Union

import numpy
from numpy.typing import ArrayLike

from . import _library
from ._cache import Cache
from ._declarations import (COMM_NULL_F, CONSUMERS_MAX, EAGAIN, EBLOCK, EINVAL, EKEY, ESTATE, GROUPS_MAX, KEY_MAX,
                            EventType, Layout, Memory, Mode, OfferFlags, OpenFlags, PeerStats, Pending, Progress, Role,
                            Stats, VerdictPlace, Verdicts, WantFlags)
from ._events import Engine, EngineRank, Event, engine_of, engine_rank_of, event_of, record_of
from ._geometry import Geometry, put_numbers, put_text, text_of, to_c
from ._library import ffi, last_error, library, open_contexts
from ._memory import is_alone
from ._number import Error, misfit
from ._wrap import Owned, Wrapped

if TYPE_CHECKING:
    import torch

BlockIds = Union[ArrayLike, "torch.Tensor"]
Key = Union[bytes, str]

EVENTS_MAX = 64  # that one poll hands out
CALLS_END_S = 2.0  # how long start and close wait for other threads to leave their calls, which take microseconds

_NULL = ffi.NULL
_EVENT = ffi.sizeof("baton_event_t")
_IDS = ffi.typeof("uint32_t[]")
_TEXT = ffi.typeof("char[]")
_OFFER, _OFFER_SIZE = ffi.typeof("baton_offer_params_t *"), ffi.sizeof("baton_offer_params_t")
_WANT, _WANT_SIZE = ffi.typeof("baton_want_params_t *"), ffi.sizeof("baton_want_params_t")
_ID = ffi.typeof("baton_id_t *")
_POINTER, _NUMBER = ffi.typeof("void *"), ffi.typeof("uintptr_t")
_U32 = numpy.dtype(numpy.uint32)

_opening = threading.Lock()
_living: weakref.WeakSet[Context] = weakref.WeakSet()


class Communicator(Protocol):
    """What mpi4py's communicators have."""

    def py2f(self) -> int: ...


class InUse(Error, BufferError):
    """A context cannot be closed yet: a view of its cache is alive, a thread is inside a call, or a reader of events is
    attached."""


@dataclass(frozen=True)
class OpenParams:
    """Who this rank is."""

    engine: str
    role: Role
    tp: int = 1
    pp: int = 1
    tp_rank: int = 0
    pp_rank: int = 0
    progress: Progress = Progress.AUTO
    verdicts: Verdicts = Verdicts.NONE
    flags: OpenFlags | int = 0

    @staticmethod
    def from_env(progress: Progress = Progress.AUTO, verdicts: Verdicts = Verdicts.NONE,
                 flags: OpenFlags | int = 0) -> OpenParams:
        """As batonrun tells this rank: baton_role_from_env(3)."""
        out = ffi.new("baton_open_params_t *", {"size": ffi.sizeof("baton_open_params_t")})
        rc = library().baton_role_from_env(out)
        if rc < 0:
            raise last_error(rc)
        return OpenParams(text_of(out.engine), Role(out.role), out.tp, out.pp, out.tp_rank, out.pp_rank, progress,
                          verdicts, flags)


@dataclass(frozen=True)
class Table:
    """The block table of one group."""

    blocks: BlockIds
    first_token: int = 0


class Call(Protocol):
    """What stands for an offer or a want: a Transfer, an Event."""

    @property
    def id(self) -> int: ...


class _User:
    """An object of the caller's that comes back with each event of its call."""

    __slots__ = ("value", "ended", "judged")

    def __init__(self, value: object) -> None:
        self.value, self.ended, self.judged = value, False, False


def _key(key: Key, name: str = "key") -> bytes:
    raw = key.encode() if isinstance(key, str) else key
    if not isinstance(raw, bytes):
        raise TypeError(f"{name} must be bytes or str, not {type(key).__name__}")
    if not 0 < len(raw) < KEY_MAX or 0 in raw:
        raise EKEY(f"{name} must have 1 to {KEY_MAX - 1} bytes and no NUL: {key!r}")
    return raw


def _name(engine: str) -> bytes:
    if not isinstance(engine, str):
        raise TypeError(f"an engine's name must be a str, not {type(engine).__name__}")
    raw = engine.encode()
    if 0 in raw:
        raise EINVAL(f"an engine's name has no NUL: {engine!r}")
    return raw


def _ids(blocks: BlockIds) -> numpy.ndarray[Any, numpy.dtype[numpy.uint32]]:
    """Block ids as the library reads them. An array of uint32 without gaps is taken as it is."""
    if type(blocks) is numpy.ndarray and blocks.dtype == _U32 and blocks.ndim == 1 and blocks.flags.c_contiguous:
        return blocks
    ids = numpy.asarray(blocks)
    if ids.ndim != 1:
        raise TypeError(f"block ids must be a list or an array of one dimension: {ids.ndim} dimensions are given")
    if ids.dtype.kind not in "iu" and ids.size > 0:
        raise TypeError(f"block ids must be integers from 0 to 2^32 - 1: elements of {ids.dtype} are given")
    if ids.size > 0 and (int(ids.min()) < 0 or int(ids.max()) > 0xFFFFFFFF):
        raise EBLOCK(f"block ids must be 0 to 2^32 - 1: {ids.min()} to {ids.max()} are given")
    return numpy.ascontiguousarray(ids, dtype=_U32)


def _id_of(call: Any) -> Any:
    return getattr(call, "id", call)


def _put_tables(out: Any, blocks: BlockIds | None, tables: Sequence[Table] | None) -> list[Any]:
    """Fills num_tables and tables; returns what must live until the call has returned."""
    if tables is None:
        if blocks is None:
            return []
        held = ffi.from_buffer(_IDS, _ids(blocks))
        out.num_tables = 1
        table = out.tables[0]
        table.blocks = held
        table.num_blocks = len(held)
        return [held]
    if blocks is not None:
        raise TypeError("give blocks, or tables, not both")
    if len(tables) > GROUPS_MAX:
        raise EINVAL(f"{len(tables)} tables are given, and a cache has at most {GROUPS_MAX} groups")
    kept = []
    out.num_tables = len(tables)
    for i, given in enumerate(tables):
        held = ffi.from_buffer(_IDS, _ids(given.blocks))
        kept.append(held)
        out.tables[i].blocks, out.tables[i].num_blocks = held, len(held)
        put_numbers(out.tables[i], given, "first_token")
    return kept


def _put_consumers(out: Any, consumers: int | Sequence[str]) -> list[Any]:
    if isinstance(consumers, int):
        try:
            out.num_consumers = consumers
        except OverflowError as error:
            raise misfit(error, consumers=consumers) from None
        return []
    if isinstance(consumers, str) or len(consumers) > CONSUMERS_MAX:
        raise EINVAL(f"consumers is their number, or at most {CONSUMERS_MAX} names of engines: {consumers!r}")
    names = [ffi.from_buffer(_TEXT, _name(name)) for name in consumers]
    array = ffi.new("const char *[]", names or 1)
    out.num_consumers, out.consumers = len(names), array
    return [*names, array]


def _not_opened(error: Error) -> Error:
    """Where an earlier context was MPI's owner, it says what else to do."""
    if "MPI is already finalised" not in str(error):
        return error
    return type(error)(f"{error}: a program that opens several contexts in turn initialises MPI itself "
                       "(from mpi4py import MPI), else the first close finalises it")


class Context:
    """One rank's part of one Baton world. Making one, start and close are collective over the communicator.

    comm: a communicator of mpi4py, the number of a Fortran handle, or None for all ranks: Baton then initialises MPI
    if nobody has, and close finalises it.
    """

    def __init__(self, params: OpenParams, comm: Communicator | int | None = None) -> None:
        self._handle = _NULL
        if comm is None:
            number = COMM_NULL_F
        else:
            number = comm if isinstance(comm, int) else comm.py2f()
        given = ffi.new("baton_open_params_t *", {"size": ffi.sizeof("baton_open_params_t")})
        put_numbers(given, params, "role", "tp", "pp", "tp_rank", "pp_rank", "progress", "verdicts", "flags")
        put_text(given.engine, "engine", params.engine)
        lib = library()
        out = ffi.new("baton_t **")
        with _opening:
            rc = lib.baton_open_f(number, given, out)
        if rc < 0:
            raise _not_opened(last_error(rc))
        self.params = params
        self._cache: Cache | None = None
        self._created = _NULL
        self._is_writable = True
        self._is_started = self._is_closed = False
        self._lib = lib
        self._address = int(ffi.cast(_NUMBER, out[0]))
        self._alone = threading.Lock()
        self._buffers: list[Any] = []
        self._tokens = itertools.count(1)
        self._users: dict[int, _User] = {}
        self._judging = threading.Lock()
        self._why_not = ""
        self._readers: dict[int, Any] = {}  # the loops that they are attached to
        self._poll, self._offer, self._want = lib.baton_poll_sized, lib.baton_offer, lib.baton_want
        open_contexts[self._address] = []
        _living.add(self)
        self._handle = out[0]
        _library.watch_finalize(_on_finalize)

    # ---- life ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _one_at_a_time(self, what: str) -> Iterator[None]:
        """Of the calls that make a context and end it, one is under way."""
        if not self._alone.acquire(blocking=False):
            raise InUse(f"{what}: another thread starts, wraps or closes")
        try:
            yield
        finally:
            self._alone.release()

    def _exclusively(self, what: str, call: Callable[[list[Any]], int]) -> int:
        """What `call` returns, while the library's context is taken away from all other threads. It finds it in a list
        which is empty afterwards, so that the frames of an error that somebody keeps do not refer to the context.
        """
        with self._one_at_a_time(what):
            if self._handle is _NULL:
                raise self._error(0)
            box, self._why_not = [self._handle], f"the context is inside {what}"
            self._handle = _NULL
            try:
                until = time.monotonic() + CALLS_END_S
                while not is_alone(box):
                    if time.monotonic() > until:
                        raise InUse(f"{what}: a thread is inside another call of this context")
                    time.sleep(0.0001)
                return call(box)
            finally:
                if not self._is_closed:
                    self._handle = box[0]
                box.clear()

    def _is_watched(self) -> bool:
        """Whether a reader of events is attached. One whose loop was closed under it is not."""
        return any(not loop.is_closed() for loop in self._readers.values())

    @property
    def cache(self) -> Cache | None:
        """What create_cache or wrap made."""
        return self._cache

    def _error(self, rc: int) -> Error:
        """The exception for a call of this thread that has just failed."""
        if self._handle is _NULL:
            return ESTATE(self._why_not)
        return last_error(rc)

    def create_cache(self, geometry: Geometry, layout: Layout = Layout.HND, memory: Memory = Memory.HOST) -> Cache:
        """Declares that Baton shall allocate the cache. Before start. `layout` is for a geometry without tensors."""
        if not geometry.tensors:
            geometry = geometry.laid_out(layout)
        given, _tensors = to_c(geometry)
        out = ffi.new("baton_cache_t **")

        def create(box: list[Any]) -> int:
            return int(self._lib.baton_cache_create(box[0], given, int(memory), out))

        rc = self._exclusively("create_cache", create)
        if rc < 0:
            raise last_error(rc)
        self._cache, self._created = Cache(geometry), out[0]
        open_contexts[self._address].append(self._cache)  # for _on_finalize, whoever else refers to it
        return self._cache

    def _declare(self, what: str, kept: object, call: Callable[[list[Any]], int]) -> None:
        """Hands something to the library that stays in memory with it, also after start."""
        all_kept = open_contexts.get(self._address, [])
        all_kept.append(kept)  # before the library knows of it
        if self._is_started:  # other threads may poll meanwhile
            with self._one_at_a_time(what):
                rc = call([self._handle])
        else:
            rc = self._exclusively(what, call)
        if rc < 0:
            all_kept.remove(kept)
            raise self._error(rc)

    def set_driver(self, path: str | os.PathLike[str], symbol: str) -> None:
        """Gives the driver of memory on devices, before the wrap that needs it: baton_driver_set(3).

        It is the baton_driver_t of that name in the shared library at `path`, which stays loaded. It runs without the
        interpreter.
        """
        try:
            loaded = ctypes.CDLL(os.fspath(path))  # which is never unloaded
            driver = ctypes.c_char.in_dll(loaded, symbol)
        except (OSError, ValueError) as error:  # there is no such library, or no such name in it
            raise EINVAL(f"the driver {symbol} of {os.fspath(path)}: {error}") from None
        given = ffi.cast("const baton_driver_t *", ctypes.addressof(driver))
        self._declare("set_driver", loaded, lambda box: int(self._lib.baton_driver_set(box[0], given)))

    def wrap(self, geometry: Geometry, owned: Sequence[Owned]) -> Cache:
        """Declares a cache that lies in arrays and tensors of the engine's own: baton_cache_wrap(3).

        Bytes move from and to where they lie. They are kept alive until close. The geometry needs no tensors: these
        follow from the arrays, which must have its elem_bytes and planes, unless it says 0 there. Memory that is
        read-only can be offered, not wanted.
        """
        wrapped = Wrapped(geometry, owned)
        given, _tensors = to_c(wrapped.geometry)
        num = len(wrapped.regions)
        regions = ffi.new("baton_region_t[]", [
            {"size": ffi.sizeof("baton_region_t"), "base": ffi.cast(_POINTER, r.first), "bytes": r.end - r.first,
             "kind": int(r.memory), "device": r.device} for r in wrapped.regions])
        out = ffi.new("baton_cache_t **")

        def declare(box: list[Any]) -> int:
            return int(self._lib.baton_cache_wrap(box[0], given, regions, num, out))

        self._declare("wrap", wrapped, declare)
        self._cache, self._is_writable = Cache(wrapped.geometry, wrapped.arrays), wrapped.is_writable
        return self._cache

    def cache_ready(self) -> bool:
        """Whether the caches of all ranks are declared, so that the verbs may be called: baton_cache_ready(3)."""
        rc = self._lib.baton_cache_ready(self._handle)
        if rc == EAGAIN.errno:
            return False
        if rc < 0:
            raise self._error(rc)
        return True

    def start(self) -> None:
        """Makes everything that was declared. Collective, and takes up to BATON_START_MS a step. Signals wait."""
        def start(box: list[Any]) -> int:
            rc = int(self._lib.baton_start(box[0]))
            if rc == 0:
                self._is_started = True
                if self._cache is not None and self._created is not _NULL:
                    base = int(ffi.cast(_NUMBER, self._lib.baton_cache_base(self._created)))
                    self._cache._expose(base, self._check_memory)
            return rc

        rc = self._exclusively("start", start)
        if rc < 0:
            raise last_error(rc)

    def _check_memory(self) -> None:
        """MPI_Finalize ends a context that was not closed, and its memory. The library knows."""
        if self._handle is not _NULL:
            n = self._lib.baton_engines_sized(self._handle, _NULL, _NULL, 0, ffi.sizeof("baton_engine_t"))
            if n < 0:
                raise self._error(n)

    def close(self) -> None:
        """Closes the context. Collective: waits until all ranks are here, or one is lost. Signals wait.

        InUse: a view of the cache is alive, a thread is inside a call, or a reader of events is attached. Nothing has
        happened then; close again later. After any other error the context is gone. After EPEER leave by baton.exit.
        A context that is closed already stays so, without an error.
        """
        if self._is_closed:
            return
        if self._is_watched():
            raise InUse("close: a reader of events is attached: leave its `async with` first")

        def end(box: list[Any]) -> int:
            views = self._cache._withdraw() if self._cache is not None else 0
            if views > 0:
                raise InUse(f"close: arrays or tensors that view the cache are alive ({views}, each with what was made "
                            "of it): delete them first")
            self._is_closed, self._why_not = True, "the context is closed"
            return int(self._lib.baton_close(box[0]))

        rc = self._exclusively("close", end)
        self._users.clear()
        if rc in (0, ESTATE.errno):  # ESTATE: MPI was finalised, and nothing of this context runs any more
            open_contexts.pop(self._address, None)
        if rc < 0:
            raise last_error(rc)

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except Error as why:
            warnings.warn(f"baton: the context was not closed: {why}", RuntimeWarning, stacklevel=2)

    def __del__(self) -> None:
        if self._handle is not _NULL:
            warnings.warn("baton: a context was not closed; it stays open until the process ends", ResourceWarning,
                          source=self)

    def _forget(self) -> None:
        """In a forked child, where the library's threads are not."""
        self._handle, self._why_not = _NULL, "the context belongs to the process that this one was forked from"
        self._is_closed = True
        self._alone, self._judging = threading.Lock(), threading.Lock()
        self._readers.clear()

    # ---- the two verbs ---------------------------------------------------------------------------------------------

    def _keep(self, user: object) -> int:
        token = next(self._tokens)
        self._users[token] = _User(user)
        return token

    def _call(self, verb: Any, p: Any, base_key: Key | None, user: object) -> int:
        """What both verbs end with. Returns the id of the call."""
        if base_key is not None:
            base = ffi.from_buffer(_TEXT, _key(base_key, "base_key"))
            p.base_key = base
        token = 0
        if user is not None:
            token = self._keep(user)
            p.user = ffi.cast(_POINTER, token)
        number = ffi.new(_ID)
        rc = verb(self._handle, p, number)
        if rc < 0:
            self._users.pop(token, None)
            raise self._error(rc)
        return int(number[0])

    def offer(self, key: Key, blocks: BlockIds | None = None, num_tokens: int = 0, *,
              tables: Sequence[Table] | None = None, ttl_ms: int = 0, consumers: int | Sequence[str] = 0,
              attach: bytes = b"", flags: OfferFlags | int = 0, user: object = None, base_key: Key | None = None,
              attempt: int = 0) -> int:
        """Offers the blocks of a request: baton_offer(3). Returns the id that its events carry."""
        p = ffi.new(_OFFER)
        p.size = _OFFER_SIZE
        raw = ffi.from_buffer(_TEXT, _key(key))
        p.key = raw
        kept = _put_tables(p, blocks, tables)
        try:
            p.num_tokens, p.ttl_ms, p.flags, p.attempt = num_tokens, ttl_ms, flags, attempt
        except (TypeError, OverflowError) as error:
            raise misfit(error, num_tokens=num_tokens, ttl_ms=ttl_ms, flags=flags, attempt=attempt) from None
        kept.append(_put_consumers(p, consumers))
        if attach:
            try:
                bytes_of = ffi.from_buffer(attach)
            except TypeError:
                raise TypeError(f"attach must be bytes, not {type(attach).__name__}") from None
            p.attach, p.num_attach = bytes_of, len(bytes_of)
        return self._call(self._offer, p, base_key, user)

    def want(self, key: Key, engine: str, blocks: BlockIds | None = None, num_tokens: int = 0, *,
             tables: Sequence[Table] | None = None, held_tokens: int = 0, timeout_ms: int = 0,
             mode: Mode | int = Mode.AUTO, flags: WantFlags | int = 0, user: object = None,
             base_key: Key | None = None, attempt: int = 0, life: int = 0) -> int:
        """Demands a request's blocks: baton_want(3). Returns the id that its events carry."""
        p = ffi.new(_WANT)
        p.size = _WANT_SIZE
        raw, name = ffi.from_buffer(_TEXT, _key(key)), ffi.from_buffer(_TEXT, _name(engine))
        p.key = raw
        p.engine = name
        kept = _put_tables(p, blocks, tables)
        try:
            p.num_tokens = num_tokens
            if held_tokens or timeout_ms or mode or flags or attempt or life:
                p.held_tokens, p.timeout_ms, p.mode, p.flags, p.attempt = held_tokens, timeout_ms, mode, flags, attempt
                p.life = life
        except (TypeError, OverflowError) as error:
            raise misfit(error, num_tokens=num_tokens, held_tokens=held_tokens, timeout_ms=timeout_ms, mode=mode,
                         flags=flags, attempt=attempt, life=life) from None
        if not self._is_writable and num_tokens > held_tokens:
            raise EINVAL("an array of the cache is read-only: its blocks can be offered, not wanted")
        return self._call(self._want, p, base_key, user)

    def append(self, offer: int | Call, num_tokens: int, blocks: BlockIds | None = None, *,
               tables: Sequence[Table] | None = None) -> None:
        """The next chunk of an offer with OfferFlags.CHUNKS: baton_append(3)."""
        p = ffi.new("baton_append_params_t *")
        p.size = ffi.sizeof("baton_append_params_t")
        kept = _put_tables(p, blocks, tables)
        offer = _id_of(offer)
        try:
            p.num_tokens = num_tokens
            rc = self._lib.baton_append(self._handle, offer, p)
        except (TypeError, OverflowError) as error:
            raise misfit(misfit(error, num_tokens=num_tokens), 64, offer=offer) from None
        kept.clear()
        if rc < 0:
            raise self._error(rc)

    def ready(self, offer: int | Call, layer_first: int, layer_count: int = 1, num_tokens: int = 0) -> None:
        """Layers of an offer with OfferFlags.LAYERS are in place: baton_ready(3)."""
        offer = _id_of(offer)
        try:
            rc = self._lib.baton_ready(self._handle, offer, layer_first, layer_count, num_tokens)
        except (TypeError, OverflowError) as error:
            named = misfit(error, layer_first=layer_first, layer_count=layer_count, num_tokens=num_tokens)
            raise misfit(named, 64, offer=offer) from None
        if rc < 0:
            raise self._error(rc)

    def cancel(self, call: int | Call) -> None:
        """Asks that an offer or want ends. Its terminal event still comes: baton_cancel(3)."""
        call = _id_of(call)
        try:
            rc = self._lib.baton_cancel(self._handle, call)
        except (TypeError, OverflowError) as error:
            raise misfit(error, 64, call=call) from None
        if rc < 0:
            raise self._error(rc)

    # ---- events ----------------------------------------------------------------------------------------------------

    def poll(self, most: int = EVENTS_MAX, *, _of_reader: bool = False) -> list[Event]:
        """Takes up to `most` events, and at most EVENTS_MAX. Never waits: baton_poll(3).

        InUse: a reader of events is attached, and takes them all.
        """
        if self._readers and not _of_reader and self._is_watched():
            raise InUse("poll: a reader of events is attached, and takes them all: await them, or leave its `async with`")
        try:
            buffer = self._buffers.pop()
        except IndexError:
            buffer = ffi.new("baton_event_t[]", EVENTS_MAX)
        n = self._poll(self._handle, buffer, most if most < EVENTS_MAX else EVENTS_MAX, _EVENT)
        if n < 0:
            raise self._error(n)
        events = [self._event(buffer[i]) for i in range(n)] if n else []
        self._buffers.append(buffer)
        return events

    def _event(self, e: Any) -> Event:
        if e.user == _NULL:
            return event_of(e, None)
        token = int(ffi.cast(_NUMBER, e.user))
        with self._judging:  # the verdict and the terminal event may be taken by two threads
            user = self._users[token]
            if e.type == EventType.VERDICT:
                user.judged = True
                last = user.ended
            elif e.type == EventType.GIVEN_UP:
                last = False
            else:
                user.ended = True
                last = user.judged or e.verdict == VerdictPlace.NONE
            if last:
                del self._users[token]
        return event_of(e, user.value)

    def wait(self, seconds: float) -> list[Event]:
        """Waits up to `seconds` (math.inf: for ever) for events, and takes them. An empty list: none came."""
        until = time.monotonic() + seconds
        events = self.poll()
        if not events:
            waits = select.poll()
            waits.register(self.event_fd(), select.POLLIN)
            while not events and (left := until - time.monotonic()) > 0:
                waits.poll(min(left, 60) * 1000)
                events = self.poll()
        return events

    def event_fd(self) -> int:
        """A descriptor that polls readable while events wait; with Progress.CALLER also when a turn is due."""
        fd = self._lib.baton_event_fd(self._handle)
        if fd < 0:
            raise self._error(fd)
        return int(fd)

    fileno = event_fd

    def progress(self) -> int:
        """One turn of the reactor in this thread: Progress.CALLER only. Returns the number of events that wait."""
        n = self._lib.baton_progress(self._handle)
        if n < 0:
            raise self._error(n)
        return int(n)

    # ---- what is going on ------------------------------------------------------------------------------------------

    def engines(self) -> list[Engine]:
        """The engines that are there, in the order of their names."""
        return self.versioned_engines()[1]

    def versioned_engines(self) -> tuple[int, list[Engine]]:
        """The same, behind a number that grows whenever an engine comes or goes."""
        version = ffi.new("uint64_t *")
        out = self._copied("baton_engine_t", lambda *to: self._lib.baton_engines_sized(self._handle, version, *to))
        return version[0], [engine_of(engine) for engine in out]

    def engine_ranks(self, engine: str) -> list[EngineRank]:
        """The ranks of the engine of that name, in the order of pp_rank * tp + tp_rank."""
        name = engine.encode()
        out = self._copied("baton_engine_rank_t",
                           lambda *to: self._lib.baton_engine_ranks_sized(self._handle, name, *to))
        return [engine_rank_of(rank) for rank in out]

    def _copied(self, kind: str, call: Callable[..., int]) -> list[Any]:
        """What `call` fills, of which it says how many there are: more may have come since it was asked."""
        room, size = 0, ffi.sizeof(kind)
        out = ffi.new(f"{kind}[]", 1)
        while (num := call(out, room, size)) > room:
            room = num
            out = ffi.new(f"{kind}[]", room)
        if num < 0:
            raise self._error(num)
        return [out[i] for i in range(num)]

    def pending(self) -> list[Pending]:
        """Engines whose handshake is not complete while wants queue behind it."""
        out = ffi.new("baton_pending_t[]", 64)
        stats = self._read_stats(pending=out, max_pending=64)
        return [record_of(Pending, out[i]) for i in range(stats.num_pending)]

    def stats(self) -> Stats:
        """Counts of this rank."""
        return record_of(Stats, self._read_stats())

    def peer_stats(self, rank: int) -> PeerStats:
        """What this rank knows of one other."""
        out = ffi.new("baton_peer_stats_t *")
        self._read_stats(peer_stats=out, first_peer=rank, num_peers=1)
        return record_of(PeerStats, out)

    def _read_stats(self, **asked: Any) -> Any:
        stats = ffi.new("baton_stats_t *", {"size": ffi.sizeof("baton_stats_t"), **asked})
        rc = self._lib.baton_stats(self._handle, stats)
        if rc < 0:
            raise self._error(rc)
        return stats

    def describe(self) -> str:
        """What was built: windows, paths, thread mode, memory."""
        size = 1 << 16
        while True:
            out = ffi.new("char[]", size)
            n = self._lib.baton_describe(self._handle, out, size)
            if n < 0:
                raise self._error(n)
            if n < size:
                return text_of(out)
            size = n + 1


def _on_finalize() -> None:
    """MPI_Finalize frees the memory of a cache whose context is open. No view may see that."""
    for cache in [kept for each in open_contexts.values() for kept in each if isinstance(kept, Cache)]:
        if cache._withdraw() > 0:
            print("baton: MPI_Finalize was called while arrays or tensors view the cache of an open context: close the "
                  "context first", file=sys.stderr)
            _library.exit(1)


def _fork() -> None:
    for context in list(_living):
        context._forget()


os.register_at_fork(after_in_child=_fork)

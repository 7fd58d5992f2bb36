# SPDX-License-Identifier: BSD-3-Clause
"""What a context hands out: events and records, copied out of the library's structs."""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

from ._declarations import PATHS, Distance, EventType, Mode, Path, Role, Status, VerdictPlace
from ._geometry import text_of
from ._library import error_of, ffi
from ._number import Error


@dataclass(frozen=True)
class Event:
    """One baton_event_t. `error` is 0 when done, else a number of baton.h; exception() makes an exception of it."""

    type: EventType
    status: Status
    error: int
    id: int
    key: bytes
    attach: bytes
    attempt: int
    user: Any
    mode: Mode
    given_up: bool
    peer: int
    peer_engine: str
    peer_rank: int
    peer_life: int
    num_blocks: int
    bytes: int
    path_bytes: dict[Path, int]
    version: int
    wait_ns: int
    total_ns: int
    verdict: VerdictPlace
    of: EventType
    detail: str

    @property
    def is_terminal(self) -> bool:
        """Whether the blocks of the call are the caller's again."""
        return self.type in (EventType.OFFER, EventType.WANT)

    def exception(self) -> Error | None:
        """Why the call did not end as done; None if it did."""
        if self.error == 0:
            return None
        return error_of(self.error, f"{self.key.decode(errors='replace')}: {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class Engine:
    """One engine. distance is that of the nearest of its num_ranks ranks, and nearest that one's index: pp_rank * tp +
    tp_rank. life is of this start of the engine."""

    name: str
    role: Role
    tp: int
    pp: int
    num_ranks: int
    distance: Distance
    nearest: int
    life: int


@dataclass(frozen=True)
class EngineRank:
    """One rank of an engine. number is of this very member; world_rank is -1 where it came by no communicator."""

    number: int
    pp_rank: int
    tp_rank: int
    distance: Distance
    world_rank: int
    host: str


def event_of(e: Any, user: object) -> Event:
    """Of a baton_event_t."""
    moved = ffi.unpack(e.path_bytes, PATHS) if e.bytes else ()
    return Event(EventType(e.type), Status(e.status), e.error, e.id, ffi.string(e.key),
                 bytes(ffi.buffer(e.attach, e.num_attach)), e.attempt, user, Mode(e.mode), e.given_up != 0, e.peer,
                 text_of(e.peer_engine), e.peer_rank, e.peer_life, e.num_blocks, e.bytes,
                 {Path(i): n for i, n in enumerate(moved) if n}, e.version, e.wait_ns, e.total_ns, VerdictPlace(e.verdict), EventType(e.of or e.type), text_of(e.detail))


def engine_of(e: Any) -> Engine:
    """Of a baton_engine_t."""
    return Engine(text_of(e.name), Role(e.role), e.tp, e.pp, e.num_ranks, Distance(e.distance), e.nearest, e.life)


def engine_rank_of(r: Any) -> EngineRank:
    """Of a baton_engine_rank_t."""
    return EngineRank(r.number, r.pp_rank, r.tp_rank, Distance(r.distance), r.world_rank, text_of(r.host))


Record = TypeVar("Record")


def record_of(kind: type[Record], struct: Any) -> Record:
    """A dataclass of _declarations, of the struct that it stands for."""
    def value(name: str) -> Any:
        member = getattr(struct, name)
        if name == "path":
            return Path(member)
        if not isinstance(member, ffi.CData):
            return member
        return text_of(member) if ffi.typeof(member).item is ffi.typeof("char") else tuple(member)

    return kind(**{field.name: value(field.name) for field in dataclasses.fields(kind)})

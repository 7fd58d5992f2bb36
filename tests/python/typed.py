# SPDX-License-Identifier: BSD-3-Clause
"""For mypy alone: what a program may do, and what it must be told. An ignored error that is none is an error."""
from __future__ import annotations

from typing import Any

import numpy
from mpi4py import MPI

import baton
from baton import aio


def right(context: baton.Context, geometry: baton.Geometry) -> list[int]:
    ids = numpy.array([1, 2], dtype=numpy.uint32)
    offer: int = context.offer(b"k", ids, 32, attach=b"x", flags=baton.OfferFlags.LAYERS, consumers=["decode0"])
    call: int = context.want("k", "prefill0", [1, 2], 32, mode=baton.Mode.PUSH)
    context.append(offer, 16, tables=[baton.Table(ids, 0)])
    context.ready(offer, 0, 1, 16)
    context.cancel(offer)
    for event in context.poll():
        reason: baton.Error | None = event.exception()
        if isinstance(reason, baton.EGONE) and event.type == baton.EventType.WANT:
            print(event.status.name, event.path_bytes.get(baton.Path.SHM, 0), event.attach[0])
    cache: baton.Cache = context.create_cache(geometry, baton.Layout.NHD | baton.Layout.KV_BLOCK)
    array: numpy.ndarray[Any, Any] = cache.array("layer.0")
    context.set_driver("libmine.so", "driver")
    context.wrap(geometry, [baton.Owned("layer.0", 0, array, "block plane head token channel"),
                            baton.Owned("layer.1", 1, array, memory=baton.Memory.DEVICE, device=1)])
    baton.Context(baton.OpenParams("prefill0", baton.Role.PREFILL, flags=baton.OpenFlags.CACHE_LATER), MPI.COMM_WORLD)
    ranks = [rank for engine in context.engines() for rank in context.engine_ranks(engine.name)]
    return [call, context.stats().wants, *(rank.number for rank in ranks)]


async def asynchronous(context: baton.Context) -> bytes:
    async with aio.Events(context) as events:
        offer: aio.Transfer = events.offer("k", [1], 16, ttl_ms=100)
        context.cancel(offer)
        event: baton.Event = await events.want("k", "prefill0", [2], 16)
        async for other in events:
            print(other.id)
        try:
            await offer
        except aio.GivenUp as error:
            await error.transfer.ended
        return event.attach


def wrong(context: baton.Context) -> None:
    context.offer(7, [1], 16)  # type: ignore[arg-type]
    context.want("k", b"prefill0", [1], 16)  # type: ignore[arg-type]
    context.want("k", "prefill0", [1], 16, deadline=3)  # type: ignore[call-arg]
    context.cache = None  # type: ignore[misc]
    context.poll()[0].status = baton.Status.DONE  # type: ignore[misc]
    baton.Group(16)  # type: ignore[call-arg]
    context.cancel("k")  # type: ignore[arg-type]
    baton.exit("now")  # type: ignore[arg-type]


async def wrong_asynchronous(events: aio.Events) -> None:
    await events.want("k", 3, [1], 16)  # type: ignore[arg-type]
    events.offer("k", [1], 16, engine="decode0")  # type: ignore[call-arg]

# SPDX-License-Identifier: BSD-3-Clause
"""A small cache, and the worlds of one rank that most tests need: it offers to itself."""
import contextlib
import time

import baton

BLOCKS, BLOCK_TOKENS, HEADS, CHANNELS, LAYERS = 64, 16, 4, 32, 2


def geometry(heads=(0, HEADS), block_tokens=BLOCK_TOKENS, num_blocks=BLOCKS, dtype="f32", elem_bytes=4, **more):
    return baton.Geometry("test", dtype, elem_bytes, 2, CHANNELS, LAYERS, [baton.Group(block_tokens, num_blocks)],
                          [baton.Split(HEADS, *heads)], **more)


@contextlib.contextmanager
def opened(params=None, **more):
    """A context of this rank alone, before its start. A test that fails leaves it as it is."""
    from mpi4py import MPI

    context = baton.Context(params or baton.OpenParams("solo", baton.Role.BOTH, **more), MPI.COMM_SELF)
    yield context
    context.close()


@contextlib.contextmanager
def solo(cache=None, **more):
    """The same, started, with a cache."""
    with opened(**more) as context:
        context.create_cache(cache or geometry())
        context.start()
        yield context


def events_of(context, calls, seconds=10.0):
    """The terminal events of these calls, by id. Others are an error, but verdicts."""
    found = {}
    until = time.monotonic() + seconds
    while set(found) != set(calls):
        if time.monotonic() > until:
            raise AssertionError(f"{set(calls) - set(found)} had no terminal event in {seconds} s")
        for event in context.wait(0.1):
            if event.type == baton.EventType.VERDICT:
                continue
            if event.id not in calls or event.id in found or not event.is_terminal:
                raise AssertionError(f"an event that nobody expected: {event}")
            found[event.id] = event
    return found

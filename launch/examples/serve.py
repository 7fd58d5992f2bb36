# SPDX-License-Identifier: BSD-3-Clause
"""A serving loop in Python: many requests at a time, some cancelled, some without an offer, and all may fail.

    batonrun --prefill 1x2 --decode 1x1 python3 serve.py [REQUESTS]

A block is free, in use by a request, or Baton's: from a call until its terminal event. The prefill engine offers each
request but every eleventh; the decode engine wants them all and cancels every seventh. Status 0 if every request ended
as it should, every value was right, and every block came back.
"""
import collections
import select
import sys
from dataclasses import dataclass
from typing import Any

import numpy

import baton

BLOCKS, BLOCK_TOKENS, EACH, TOKENS, HEADS, LAYERS, AT_ONCE = 64, 16, 4, 56, 8, 2, 8


@dataclass
class Request:
    number: int
    blocks: "numpy.ndarray[Any, Any]"
    given_up: bool = False


class Engine:
    """One rank: its cache, its free blocks, and how its requests ended."""

    def __init__(self, context: baton.Context) -> None:
        me = context.params
        self.context, self.prefill = context, me.role == baton.Role.PREFILL
        first, count = HEADS // me.tp * me.tp_rank, HEADS // me.tp  # the heads that this rank holds
        cache = context.create_cache(baton.Geometry(
            model="example", dtype="f32", elem_bytes=4, planes=2, head_size=32, layers_total=LAYERS,
            groups=[baton.Group(BLOCK_TOKENS, BLOCKS)], splits=[baton.Split(HEADS, first, count)]))
        context.start()
        self.layers = [cache.array(layer) for layer in range(LAYERS)]  # [block, plane, head, token, channel]
        self.places = numpy.ix_(range(EACH), range(2), range(first, first + count), range(BLOCK_TOKENS), [0])
        self.free = collections.deque(range(BLOCKS))
        self.open = self.given_up = self.wrong = 0
        self.ended: collections.Counter[str] = collections.Counter()

    def values(self, number: int, layer: int) -> Any:
        """What a model would compute. No two places of a request have the same value."""
        block, plane, head, token, channel = self.places
        return ((((number % 64 * LAYERS + layer) * 2 + plane) * HEADS + head) * EACH + block) * BLOCK_TOKENS + token

    def begin(self, number: int) -> None:
        """The call returns at once; what becomes of it is an event that brings the request back."""
        request = Request(number, numpy.array([self.free.popleft() for _ in range(EACH)], dtype=numpy.uint32))
        key, self.open = f"request-{number}", self.open + 1
        if self.prefill:
            for i, layer in enumerate(self.layers):
                layer[request.blocks] = self.values(number, i)
            token = number.to_bytes(4, "little")  # the first token goes with the offer
            self.context.offer(key, request.blocks, TOKENS, attach=token, ttl_ms=8000, user=request)
            return
        timeout = 400 if number % 11 == 5 else 8000
        call = self.context.want(key, "prefill0", request.blocks, TOKENS, timeout_ms=timeout, user=request)
        if number % 7 == 3:  # its user has gone. A quick request may be done all the same
            self.context.cancel(call)

    def decode(self, request: Request, event: baton.Event) -> None:
        """Checks the first token, and all that came: nothing behind TOKENS tokens is looked at."""
        self.wrong += event.attach != request.number.to_bytes(4, "little")
        came = self.places[0] * BLOCK_TOKENS + self.places[3] < TOKENS
        for i, layer in enumerate(self.layers):
            self.wrong += int(((layer[request.blocks] != self.values(request.number, i)) & came).sum())

    def on_event(self, event: baton.Event) -> None:
        request = event.user
        if event.type == baton.EventType.GIVEN_UP:  # it has failed, and its blocks are still Baton's
            request.given_up, self.given_up = True, self.given_up + 1
        if event.type == baton.EventType.GIVEN_UP or not request.given_up:
            self.open, self.ended[event.status.name.lower()] = self.open - 1, self.ended[event.status.name.lower()] + 1
        if event.is_terminal:
            if event.type == baton.EventType.WANT and event.status == baton.Status.DONE:
                self.decode(request, event)
            self.free.extend(request.blocks.tolist())
        reason = event.exception()
        if reason is not None and request.number % 7 != 3 and request.number % 11 != 5:
            raise reason  # an engine would compute the prefill elsewhere

    def serve(self, requests: int) -> None:
        events = select.poll()
        events.register(self.context, select.POLLIN)
        number = 0
        while number < requests or self.open > 0:
            if number < requests and self.prefill and number % 11 == 5:
                number += 1  # the decode engine waits for this offer in vain
            elif number < requests and self.open < AT_ONCE and len(self.free) >= EACH:
                self.begin(number)
                number += 1
            else:
                events.poll(100)  # an engine would compute a step of its batch here
                for event in self.context.poll():
                    self.on_event(event)


def main() -> int:
    with baton.Context(baton.OpenParams.from_env()) as context:
        engine = Engine(context)
        engine.serve(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
        ended = ", ".join(f"{count} {how}" for how, count in sorted(engine.ended.items()))
        kept = BLOCKS - len(engine.free)  # of calls that were given up and are not quiet yet
        print(f"{context.params.engine}: {ended}; {kept} blocks are Baton's; {engine.wrong} values wrong", flush=True)
        failed = engine.wrong > 0 or (kept > 0 and engine.given_up == 0)
        del engine  # and its views: the memory of the cache goes with the context
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

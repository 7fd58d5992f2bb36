# SPDX-License-Identifier: BSD-3-Clause
"""Memory that the engine owns: K and V of each layer are numpy arrays of their own, which Baton only learns of after
start, as in an engine that measures its memory first. The decode engine compares all that it gets.

    batonrun --prefill 1x2 --decode 1x1 python3 own.py

Each rank first prints what describe says of its memory, and by which paths it reaches that of the others.
BATON_FAKE_NODES=2 shows the path between nodes (rma), arrays over a memfd that of shared mappings (shm).
"""
import math
import sys
import time
from typing import Any

import numpy

import baton

LAYERS, HEADS, HEAD_SIZE, BLOCKS, BLOCK_TOKENS, TOKENS = 4, 8, 64, 64, 16, 40
NAMES = [f"{plane}.{layer}" for layer in range(LAYERS) for plane in "kv"]


def declare(context: baton.Context, heads: int, head_first: int) -> "dict[str, numpy.ndarray[Any, Any]]":
    """Allocates the tensors, and tells Baton of them: each has one plane, and the axes that its array has."""
    arrays = {name: numpy.zeros((BLOCKS, BLOCK_TOKENS, heads, HEAD_SIZE), numpy.int32) for name in NAMES}
    geometry = baton.Geometry(
        model="example", dtype="i32", elem_bytes=4, planes=1, head_size=HEAD_SIZE, layers_total=LAYERS,
        groups=[baton.Group(BLOCK_TOKENS, BLOCKS)], splits=[baton.Split(HEADS, head_first, heads)])
    context.wrap(geometry, [baton.Owned(name, i // 2, arrays[name], "block token head channel")
                            for i, name in enumerate(NAMES)])
    return arrays


def values(tensor: int, heads: int, head_first: int) -> Any:
    """What a model would compute, as [token, head, channel]. No two elements of the model have the same value."""
    token, head, channel = numpy.ix_(range(TOKENS), range(head_first, head_first + heads), range(HEAD_SIZE))
    return ((tensor * TOKENS + token) * HEADS + head) * HEAD_SIZE + channel + 1


def serve(context: baton.Context) -> int:
    """One request. Returns how many elements came wrong."""
    me = context.params
    heads, head_first = HEADS // me.tp, HEADS // me.tp * me.tp_rank
    context.start()
    arrays = declare(context, heads, head_first)  # an engine would load its model first, and see what memory is left
    while not context.cache_ready():  # until the other ranks have declared theirs too
        time.sleep(0.001)
    for line in context.describe().splitlines():
        if line.startswith(("cache:", "paths:", "by ")):
            print(f"{me.engine}: {line}")
    prefill = me.role == baton.Role.PREFILL
    blocks = numpy.array([7, 3 if prefill else 60, 12], numpy.uint32)  # the two sides need not use the same ones
    token = numpy.arange(TOKENS)
    places = blocks[token // BLOCK_TOKENS], token % BLOCK_TOKENS
    if prefill:
        for i, name in enumerate(NAMES):
            arrays[name][places] = values(i, heads, head_first)
        context.offer("r1", blocks, TOKENS)
    else:
        context.want("r1", "prefill0", blocks, TOKENS)
    (event,) = context.wait(math.inf)  # at its deadline at the latest
    reason = event.exception()
    if reason is not None:
        raise reason
    wrong = 0
    if not prefill:
        wrong = sum(int((arrays[name][places] != values(i, heads, head_first)).sum()) for i, name in enumerate(NAMES))
    print(f"{me.engine}: {event.type.name} {event.status.name}, {event.bytes} bytes, {wrong} elements wrong", flush=True)
    return wrong


def main() -> int:
    with baton.Context(baton.OpenParams.from_env(flags=baton.OpenFlags.CACHE_LATER)) as context:
        return int(serve(context) > 0)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""Bytes between engines that cut a model differently, by both verbs, with all that a call can carry.

    test_transfer.py [created | private | shared | torch | torch-shared | late] [CASE...]

The first word says whose memory the caches are: Baton's, or wrapped arrays. Runs under batonrun with any engines; all
ranks play the same cases. Every element of every want is checked.
"""
import mmap
import os
import sys
import time
import traceback
from dataclasses import replace

import numpy

import baton
from with_world import CHANNELS, HEADS, LAYERS, events_of

TOKENS = 100
ATTACHED = bytes(range(256))
KEYS = ["r1", b"\xff\xfe\x01", "é" * 127 + "x", b"k" * 255, "日本語"]


def expected(layer, plane, heads, tokens, salt):
    """What entry (layer, plane, head, token, channel) of a request is: no two are alike."""
    plane, head, token, channel = numpy.meshgrid(plane, heads, tokens, numpy.arange(CHANNELS), indexing="ij")
    number = (((layer * 2 + plane) * HEADS + head) * 128 + token) * CHANNELS + channel
    return (number + salt * 65536).astype(numpy.float32)


class Rank:
    """This rank's part of the job: a cache in its own layout, and free blocks."""

    def __init__(self, context, me, memory):
        self.context, self.me, self.producer = context, me, me.role == baton.Role.PREFILL
        is_mapped = memory == "created" or "shared" in memory
        self.path = baton.Path.SHM if is_mapped else baton.Path.CMA
        if "BATON_FAKE_NODES" in os.environ:
            self.path = baton.Path.RMA
        per = HEADS // me.tp
        self.heads = numpy.arange(per * me.tp_rank, per * (me.tp_rank + 1))
        self.block_tokens = 16 if self.producer else 32
        geometry = baton.Geometry("test", "f32", 4, 2, CHANNELS, LAYERS, [baton.Group(self.block_tokens, 64)],
                                  [baton.Split(HEADS, int(self.heads[0]), per)])
        if memory == "created":
            layout = baton.Layout.HND if self.producer else baton.Layout.NHD | baton.Layout.KV_FUSED
            self.cache = context.create_cache(geometry, layout)
            context.start()
        elif memory == "late":
            context.start()
            time.sleep(0.05 * me.tp_rank)  # as ranks that measure their memory
            self.cache = context.wrap(geometry, self.owned("private"))
        else:
            kind = baton.Memory.SHARED if "shared" in memory else baton.Memory.HOST
            self.cache = context.wrap(geometry, [replace(o, memory=kind) for o in self.owned(memory)])
            context.start()
        until = time.monotonic() + 20
        while not context.cache_ready():
            assert memory == "late" and time.monotonic() < until
            time.sleep(0.001)
        self.random = numpy.random.default_rng(me.tp_rank)

    def allocate(self, memory, shape):
        """Zeros of that kind of memory, as an engine may have them."""
        size = int(numpy.prod(shape))
        if memory == "private":
            return numpy.zeros(shape, dtype=numpy.float32)
        if memory == "shared":
            fd = os.memfd_create("cache")
            os.ftruncate(fd, 4 * size)
            array = numpy.frombuffer(mmap.mmap(fd, 4 * size), dtype=numpy.float32).reshape(shape)
            os.close(fd)
            return array
        import torch

        tensor = torch.zeros(shape, dtype=torch.float32)
        return tensor.share_memory_() if memory == "torch-shared" else tensor

    def owned(self, memory):
        """K and V apart on the producer; fused, both layers in one allocation, on the consumer."""
        per = len(self.heads)
        if self.producer:
            shape = (2, 64, per, self.block_tokens, CHANNELS)
            return [baton.Owned(f"layer.{layer}", layer, self.allocate(memory, shape), "plane block head token channel")
                    for layer in range(LAYERS)]
        both = self.allocate(memory, (64, LAYERS, self.block_tokens, per, 2 * CHANNELS))
        fused = both.reshape(64, LAYERS, self.block_tokens, per, 2, CHANNELS)
        return [baton.Owned(f"layer.{layer}", layer, fused[:, layer], "block token head plane channel")
                for layer in range(LAYERS)]

    def blocks(self, tokens=TOKENS):
        return self.random.permutation(64)[:-(-tokens // self.block_tokens)].astype(numpy.uint32)

    def fill(self, blocks, salt, first=0, end=TOKENS, layers=range(LAYERS)):
        for layer in layers:
            view = self.cache.array(layer)
            for t in range(first, end):
                view[blocks[t // self.block_tokens], :, :, t % self.block_tokens] = \
                    expected(layer, range(2), self.heads, [t], salt)[:, :, 0]

    def check(self, blocks, salt, first=0, end=TOKENS):
        for layer in range(LAYERS):
            view = self.cache.array(layer)
            got = numpy.stack([view[blocks[t // self.block_tokens], :, :, t % self.block_tokens]
                               for t in range(first, end)], axis=2)
            wanted = expected(layer, range(2), self.heads, range(first, end), salt)
            assert (got == wanted).all(), f"layer {layer}: {(got != wanted).sum()} elements are wrong"

    def wipe(self, value=0):
        for layer in range(LAYERS):
            self.cache.array(layer)[:] = value

    def done(self, call, **also):
        event = events_of(self.context, [call])[call]
        assert event.status == baton.Status.DONE and event.error == 0 and event.exception() is None, event
        for name, value in also.items():
            assert getattr(event, name) == value, (name, getattr(event, name), value)
        return event

    def failed(self, call, kind, status=baton.Status.FAILED):
        event = events_of(self.context, [call])[call]
        assert event.status == status and type(event.exception()) is kind, event
        return event


def keys_and_attached_bytes(r):
    for salt, key in enumerate(KEYS):
        blocks = r.blocks()
        raw = key.encode() if isinstance(key, str) else key
        if r.producer:
            r.fill(blocks, salt)
            offer = r.context.offer(key, blocks, TOKENS, attach=ATTACHED[:256 - salt], user=[salt])
            r.done(offer, key=raw, user=[salt], type=baton.EventType.OFFER)
        else:
            r.wipe()
            event = r.done(r.context.want(key, "prefill0", blocks, TOKENS, user=(key, salt)), key=raw, user=(key, salt),
                           attach=ATTACHED[:256 - salt], type=baton.EventType.WANT, mode=baton.Mode.PULL)
            elements = LAYERS * 2 * len(r.heads) * TOKENS * CHANNELS
            assert sum(event.path_bytes.values()) == event.bytes == 4 * elements, event
            assert set(event.path_bytes) == {r.path}, (event.path_bytes, r.path)
            r.check(blocks, salt)


def block_ids_of_each_kind(r):
    kinds = [list, tuple, lambda b: b.astype(numpy.int64), lambda b: numpy.repeat(b, 2)[::2], lambda b: b.astype(">u4"),
             lambda b: memoryview(b), lambda b: b.astype(numpy.uint16)]
    torch = sys.modules.get("torch")  # to import it takes seconds of a core: only where the caches are tensors
    if torch is not None:
        kinds += [lambda b: torch.from_numpy(b.astype(numpy.int64)), lambda b: torch.from_numpy(b.astype(numpy.int32))]
    for salt, kind in enumerate(kinds):
        blocks = r.blocks()
        if r.producer:
            r.fill(blocks, salt)
            r.done(r.context.offer(f"ids-{salt}", kind(blocks), TOKENS))
        else:
            r.done(r.context.want(f"ids-{salt}", "prefill0", kind(blocks), TOKENS))
            r.check(blocks, salt)


def push_held_tokens_and_base_keys(r):
    blocks = r.blocks()
    if r.producer:
        r.fill(blocks, 3)
        r.done(r.context.offer("mine", blocks, TOKENS, base_key="ours", attempt=4, consumers=["decode0"]), attempt=4)
    else:
        r.wipe()
        event = r.done(r.context.want("yours", "prefill0", blocks, TOKENS, held_tokens=37, mode=baton.Mode.PUSH,
                                      base_key="ours", attempt=4), mode=baton.Mode.PUSH, key=b"yours")
        assert event.num_blocks == len(blocks)
        r.check(blocks, 3, 37)
        if 37 % r.block_tokens:
            held = r.cache.array(0)[blocks[36 // r.block_tokens], :, :, 36 % r.block_tokens]
            assert (held == 0).all()


def tables_and_zero_tail(r):
    blocks = r.blocks(70)
    tables = [baton.Table(blocks)]
    if r.producer:
        r.fill(blocks, 5, 0, 70)
        r.done(r.context.offer("tables", tables=tables, num_tokens=70))
    else:
        r.wipe(1)
        r.done(r.context.want("tables", "prefill0", tables=tables, num_tokens=70, flags=baton.WantFlags.ZERO_TAIL))
        r.check(blocks, 5, 0, 70)
        tail = r.cache.array(1)[blocks[-1], :, :, 70 % r.block_tokens:]
        assert (tail == 0).all()


def layers_and_chunks(r):
    blocks = r.blocks()
    if r.producer:
        flags = baton.OfferFlags.LAYERS | baton.OfferFlags.CHUNKS
        offer = r.context.offer("stream", num_tokens=TOKENS, tables=(), flags=flags)
        given = 0
        for end in (40, 64, TOKENS):
            last = -(-end // r.block_tokens)
            r.context.append(offer, end, blocks[given:last])
            for layer in range(LAYERS):
                r.fill(blocks, 6, 0 if end == 40 else {64: 40, TOKENS: 64}[end], end, [layer])
                r.context.ready(offer, layer, 1, end)
            given = last
        r.done(offer)
    else:
        r.done(r.context.want("stream", "prefill0", blocks, TOKENS))
        r.check(blocks, 6)


def attempts_cancel_and_deadlines(r):
    from mpi4py import MPI

    world, blocks = MPI.COMM_WORLD, r.blocks()
    if r.producer:
        r.fill(blocks, 7)
        r.done(r.context.offer("attempt", blocks, TOKENS, attempt=1), attempt=1)
        world.Barrier()
        cancelled = r.context.offer("cancel", blocks, TOKENS, user="u")
        r.context.cancel(cancelled)
        r.failed(cancelled, baton.ECANCELED, baton.Status.CANCELLED)
        r.context.cancel(cancelled)  # it has ended: nothing happens
        expired = r.context.offer("nobody", blocks, TOKENS, ttl_ms=50)
        r.failed(expired, baton.ETIMEDOUT, baton.Status.EXPIRED)
    else:
        r.done(r.context.want("attempt", "prefill0", blocks, TOKENS, attempt=1), attempt=1)
        r.check(blocks, 7)
        late = r.context.want("attempt", "prefill0", blocks, TOKENS, attempt=1)
        event = r.failed(late, baton.EGONE)
        assert event.detail in str(event.exception()) and event.peer != 0, event
        world.Barrier()
        late = r.context.want("never", "prefill0", blocks, TOKENS, timeout_ms=50)
        r.failed(late, baton.ETIMEDOUT, baton.Status.EXPIRED)
        call = r.context.want("never too", "prefill0", blocks, TOKENS)
        r.context.cancel(call)
        r.failed(call, baton.ECANCELED, baton.Status.CANCELLED)
    world.Barrier()


def what_is_going_on(r):
    from mpi4py import MPI

    context, me = r.context, r.me
    engines = {e.name: e for e in context.engines()}
    mine = engines[me.engine]
    assert (mine.tp, mine.pp, mine.role) == (me.tp, me.pp, me.role), mine
    assert mine.num_ranks == me.tp * me.pp and mine.distance == baton.Distance.SELF, mine
    ranks = context.engine_ranks(me.engine)
    assert [(r.pp_rank, r.tp_rank) for r in ranks] == [(p, t) for p in range(me.pp) for t in range(me.tp)], ranks
    assert ranks[mine.nearest].distance == baton.Distance.SELF and ranks[mine.nearest].host, ranks
    assert ranks[mine.nearest].world_rank == MPI.COMM_WORLD.rank and len({r.number for r in ranks}) == len(ranks), ranks
    assert list(engines) == sorted(engines) and context.versioned_engines()[0] > 0
    try:
        raise AssertionError(context.engine_ranks("nobody"))
    except baton.EENGINE:
        pass
    stats = context.stats()
    assert stats.offers_done + stats.wants_done >= len(KEYS) and len(stats.bytes) == baton.PATHS, stats
    assert isinstance(stats.reasons, tuple) and stats.reasons[-baton.ETIMEDOUT.errno] >= 1, stats
    other = next(e for e in engines.values() if e.role != me.role)
    peer = context.peer_stats(context.engine_ranks(other.name)[other.nearest].world_rank)
    assert peer.engine == other.name and peer.path in (baton.Path.SHM, baton.Path.CMA, baton.Path.RMA), peer
    assert context.pending() == []
    assert "paths:" in context.describe()


def verdicts(r):
    """Where verdicts are asked for, a call has one beside its terminal event, and both bring what the caller gave."""
    blocks = r.blocks()
    mark = object()
    if r.producer:
        r.fill(blocks, 9)
        call = r.context.offer("verdict", blocks, TOKENS, user=mark)
    else:
        call = r.context.want("verdict", "prefill0", blocks, TOKENS, user=mark)
    terminal = baton.EventType.OFFER if r.producer else baton.EventType.WANT
    expected_types = {terminal} if r.me.verdicts == baton.Verdicts.NONE else {terminal, baton.EventType.VERDICT}
    types = []
    for _ in range(100):
        for event in r.context.wait(0.1):
            if event.id != call:  # a verdict of the cases before
                continue
            assert event.user is mark and event.status == baton.Status.DONE, event
            types.append(event.type)
        if len(types) == len(expected_types):
            break
    assert set(types) == expected_types, types
    assert r.context._users == {}


def main():
    from mpi4py import MPI

    memory, only = sys.argv[1] if len(sys.argv) > 1 else "created", sys.argv[2:]
    flags = baton.OpenFlags.CACHE_LATER if memory == "late" else 0
    verdicts_of = baton.Verdicts.NONE
    params = baton.OpenParams.from_env()
    if params.tp > 1:
        verdicts_of = baton.Verdicts.ALL
    me = baton.OpenParams.from_env(verdicts=verdicts_of, flags=flags)
    with baton.Context(me, MPI.COMM_WORLD) as context:
        r = Rank(context, me, memory)
        for case in (keys_and_attached_bytes, block_ids_of_each_kind, push_held_tokens_and_base_keys,
                     tables_and_zero_tail, layers_and_chunks, attempts_cancel_and_deadlines, what_is_going_on, verdicts):
            if only and case.__name__ not in only:
                continue
            try:
                case(r)
            except BaseException:
                traceback.print_exc()
                print(f"{case.__name__} failed on {me.engine} {me.tp_rank}", file=sys.stderr)
                baton.exit(1)
            MPI.COMM_WORLD.Barrier()
            if MPI.COMM_WORLD.rank == 0:
                print(f"{case.__name__}: good on all ranks")


main()

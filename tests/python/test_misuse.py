# SPDX-License-Identifier: BSD-3-Clause
"""What a program should not do ends in an exception that says so, never in a crash."""
import collections
import ctypes
import gc
import math
import multiprocessing
import os
import pickle
import signal
import threading
import time
import types
import unittest
import warnings

import numpy

import baton
from with_world import events_of, geometry, opened, solo

IDS = numpy.array([1, 2], dtype=numpy.uint32)


def all_calls(context):
    """Each method that needs an open context, with arguments that are right."""
    return {
        "offer": lambda: context.offer("k", IDS, 32),
        "want": lambda: context.want("k", "solo", IDS, 32),
        "append": lambda: context.append(1, 32, IDS),
        "ready": lambda: context.ready(1, 0),
        "cancel": lambda: context.cancel(1),
        "poll": context.poll,
        "wait": lambda: context.wait(0.01),
        "event_fd": context.event_fd,
        "fileno": context.fileno,
        "progress": context.progress,
        "engines": context.engines,
        "engine_ranks": lambda: context.engine_ranks("solo"),
        "pending": context.pending,
        "stats": context.stats,
        "peer_stats": lambda: context.peer_stats(0),
        "describe": context.describe,
        "start": context.start,
        "create_cache": lambda: context.create_cache(geometry()),
    }


class Life(unittest.TestCase):
    def test_after_close(self):
        with solo() as context:
            pass
        for name, call in all_calls(context).items():
            with self.subTest(name), self.assertRaisesRegex(baton.ESTATE, "the context is closed"):
                call()
        context.close()  # once more does nothing
        with self.assertRaisesRegex(baton.ESTATE, "the context is closed"), context:
            context.poll()

    def test_a_wait_for_ever(self):
        with solo() as context:
            call = context.offer("k", IDS, 32, ttl_ms=50)
            self.assertEqual([event.id for event in context.wait(math.inf)], [call])

    def test_before_start(self):
        with opened() as context:
            for name in ("offer", "want", "append", "ready", "cancel", "engines", "engine_ranks", "peer_stats",
                         "describe"):
                with self.subTest(name), self.assertRaises(baton.ESTATE):
                    all_calls(context)[name]()
            self.assertEqual(context.poll(), [])

    def test_twice(self):
        with solo() as context:
            with self.assertRaises(baton.ESTATE):
                context.start()
            with self.assertRaises(baton.ESTATE):
                context.create_cache(geometry())
            call = context.offer("still works", IDS, 32)
            context.cancel(call)
            self.assertEqual(events_of(context, [call])[call].status, baton.Status.CANCELLED)
        with opened() as context:
            context.create_cache(geometry())
            with self.assertRaises(baton.ENOSYS):
                context.create_cache(geometry())

    def test_an_error_that_is_kept_does_not_hold_the_context(self):
        """A traceback keeps the frames that it came through, and these what they refer to."""
        wrong = baton.Geometry("", "f32", 4, 1, 1, 1, [baton.Group(1, 1)], [baton.Split(1, 0, 1)])
        owned = [baton.Owned("layer.0", 0, numpy.zeros((1, 1, 1, 1, 1), numpy.float32))]
        calls = {
            "create_cache": lambda c: c.create_cache(wrong),
            "wrap": lambda c: c.wrap(wrong, owned),
            "engines": lambda c: c.engines(),
            "start": lambda c: (c.start(), c.start()),
            "close": lambda c: (c.start(), [c.cache.array(0), c.close()]),
        }
        for name, call in calls.items():
            with self.subTest(name), opened() as context:
                context.create_cache(geometry())
                kept = None
                try:  # assertRaises would clear the frames
                    call(context)
                except baton.Error as error:
                    kept = error
                self.assertIsNotNone(kept)
                context.close()

    def test_a_close_that_is_interrupted(self):
        """As by Ctrl-C while it looks for views. The context is as it was."""
        from unittest import mock

        with solo() as context:
            view = context.cache.array(0)
            with mock.patch("gc.collect", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
                context.close()
            self.assertEqual(context.poll(), [])
            with self.assertRaisesRegex(baton.InUse, "view the cache"):
                context.close()
            view[:] = 1
            del view

    def test_what_is_not_to_be_set(self):
        with solo() as context:
            view = context.cache.array(0)
            with self.assertRaises(AttributeError):
                context.cache = None
            with self.assertRaises(baton.InUse):
                context.close()
            context.cache.geometry = geometry(num_blocks=1 << 16).laid_out()
            with self.assertRaises((TypeError, ValueError)):
                context.cache.array(0)  # a larger one than the memory has
            del view

    def test_a_fork(self):
        with solo() as context:
            view = context.cache.array(0)
            view[3] = 7
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    for name, call in all_calls(context).items():
                        with self.assertRaisesRegex(baton.ESTATE, "belongs to the process"):
                            call()
                    context.close()  # there is nothing to close, as at the end of a `with`
                    self.assertEqual(float(view[3].min()), 7)
                    with warnings.catch_warnings():
                        warnings.simplefilter("error")
                        del context
                        gc.collect()
                    status = 0
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            del view
            call = context.offer("after", IDS, 32)
            context.cancel(call)
            events_of(context, [call])

    def test_a_fork_while_a_thread_calls(self):
        with solo() as context:
            stop = threading.Event()

            def poll():
                while not stop.is_set():
                    context.poll()
                    context.stats()

            thread = threading.Thread(target=poll)
            thread.start()
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    try:
                        context.poll()
                    except baton.ESTATE:
                        os._exit(0)
                    os._exit(1)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
            stop.set()
            thread.join()


    def in_a_child(self, fork, scene):
        """The scene, in a process that `fork` makes. It ends within 10 s."""
        child = fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(10)
                scene()
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_fork_that_opens(self):
        def opens():
            for comm in (None, context_number):
                with self.assertRaisesRegex(baton.ESTATE, "MPI belongs to the process that this one was forked from"):
                    baton.Context(baton.OpenParams("child", baton.Role.BOTH), comm)

        from mpi4py import MPI

        context_number = MPI.COMM_SELF.py2f()
        with solo():
            self.in_a_child(os.fork, opens)
        self.in_a_child(os.fork, opens)  # MPI is its parent's still

    def test_a_fork_that_python_does_not_see(self):
        """A library in C forks: nothing of Python's runs in the child before its next call."""
        def calls():
            for call in all_calls(context).values():
                with self.assertRaisesRegex(baton.ESTATE, "belongs to the process that this one was forked from"):
                    call()
            context.close()

        with solo() as context:
            self.in_a_child(ctypes.PyDLL(None).fork, calls)
            call = context.offer("after", IDS, 32)
            context.cancel(call)
            events_of(context, [call])

    def test_processes_of_multiprocessing(self):
        def work(context, results):
            try:
                context.poll()
            except baton.ESTATE as error:
                results.put(str(error))
            del context
            gc.collect()

        fork = multiprocessing.get_context("fork")
        with solo() as context:
            results = fork.SimpleQueue()
            child = fork.Process(target=work, args=(context, results))
            child.start()
            self.assertIn("belongs to the process", results.get())
            child.join(10)
            self.assertEqual(child.exitcode, 0)


class Arguments(unittest.TestCase):
    def each(self, cases):
        with solo() as context:
            for name, (errors, call) in cases(context).items():
                with self.subTest(name), self.assertRaises(errors):
                    call()
            self.assertEqual(context.stats().wants_live, 0)
            self.assertEqual(context._users, {})
            self.assertEqual(context.poll(), [])

    def test_keys(self):
        self.each(lambda c: {
            "empty": (baton.EKEY, lambda: c.offer("", IDS, 32)),
            "long": (baton.EKEY, lambda: c.offer("x" * 256, IDS, 32)),
            "long in utf-8": (baton.EKEY, lambda: c.want("é" * 128, "solo", IDS, 32)),
            "NUL": (baton.EKEY, lambda: c.offer(b"a\0b", IDS, 32)),
            "base NUL": (baton.EKEY, lambda: c.offer("a", IDS, 32, base_key="\0")),
            "number": (TypeError, lambda: c.offer(7, IDS, 32)),
            "None": (TypeError, lambda: c.want(None, "solo", IDS, 32)),
            "bytearray": (TypeError, lambda: c.want(bytearray(b"k"), "solo", IDS, 32)),
            "surrogate": (UnicodeEncodeError, lambda: c.want("\ud800", "solo", IDS, 32)),
        })

    def test_blocks(self):
        self.each(lambda c: {
            "outside": (baton.EBLOCK, lambda: c.offer("k", [1, 64], 32)),
            "negative": (baton.EBLOCK, lambda: c.offer("k", [1, -1], 32)),
            "negative of an array": (baton.EBLOCK, lambda: c.offer("k", numpy.array([1, -1]), 32)),
            "large": (baton.EBLOCK, lambda: c.want("k", "solo", [1, 1 << 32], 32)),
            "larger": (TypeError, lambda: c.want("k", "solo", [1, 1 << 64], 32)),
            "float": (TypeError, lambda: c.want("k", "solo", [1.0, 2.0], 32)),
            "bool": (TypeError, lambda: c.want("k", "solo", numpy.array([True, False]), 32)),
            "text": (TypeError, lambda: c.want("k", "solo", "12", 32)),
            "two dimensions": (TypeError, lambda: c.want("k", "solo", IDS.reshape(1, 2), 32)),
            "one number": (TypeError, lambda: c.want("k", "solo", 5, 32)),
            "None": (baton.ETOKENS, lambda: c.want("k", "solo", None, 32)),
            "few": (baton.ETOKENS, lambda: c.want("k", "solo", IDS, 33)),
            "twice": (baton.EINVAL, lambda: c.want("k", "solo", [1, 1], 32)),
            "both": (TypeError, lambda: c.want("k", "solo", IDS, 32, tables=[baton.Table(IDS)])),
            "two tables": (baton.EINVAL, lambda: c.want("k", "solo", tables=[baton.Table(IDS)] * 2, num_tokens=32)),
            "nine tables": (baton.EINVAL, lambda: c.want("k", "solo", tables=[baton.Table(IDS)] * 9, num_tokens=32)),
            "no table": (AttributeError, lambda: c.want("k", "solo", tables=[IDS], num_tokens=32)),
            "first token": (baton.EINVAL, lambda: c.offer("k", num_tokens=32, tables=[baton.Table(IDS, 3)])),
        })

    def test_numbers(self):
        self.each(lambda c: {
            "tokens negative": (OverflowError, lambda: c.offer("k", IDS, -1)),
            "tokens large": (OverflowError, lambda: c.offer("k", IDS, 1 << 32)),
            "tokens float": (TypeError, lambda: c.want("k", "solo", IDS, 32.0)),
            "tokens text": (TypeError, lambda: c.want("k", "solo", IDS, "32")),
            "no tokens": (baton.ETOKENS, lambda: c.offer("k", IDS, 0)),
            "held": (baton.ETOKENS, lambda: c.want("k", "solo", IDS, 32, held_tokens=33)),
            "mode": (baton.EINVAL, lambda: c.want("k", "solo", IDS, 32, mode=7)),
            "flags of a want": (baton.EINVAL, lambda: c.want("k", "solo", IDS, 32, flags=4)),
            "flags of an offer": (baton.EINVAL, lambda: c.offer("k", IDS, 32, flags=64)),
            "an id never given": (baton.EINVAL, lambda: c.cancel(99)),
            "an id of 0": (baton.EINVAL, lambda: c.ready(0, 0)),
            "an id below 0": (OverflowError, lambda: c.append(-1, 1)),
            "an id too large": (OverflowError, lambda: c.cancel(1 << 64)),
            "a rank": (baton.EINVAL, lambda: c.peer_stats(99)),
            "poll": (baton.EINVAL, lambda: c.poll(-1)),
            "poll of text": (TypeError, lambda: c.poll("1")),
        })

    def test_the_argument_is_named(self):
        offer = lambda c, **more: c.offer("k", IDS, **{"num_tokens": 32, **more})
        want = lambda c, **more: c.want("k", "solo", IDS, **{"num_tokens": 32, **more})
        cases = {
            "attach must be bytes, not str": lambda c: offer(c, attach="text"),
            "ttl_ms must be 0 to 2\\^32 - 1, not -1": lambda c: offer(c, ttl_ms=-1),
            "num_tokens must be a whole number, not '32'": lambda c: offer(c, num_tokens="32"),
            "flags must be a whole number, not 'LAYERS'": lambda c: offer(c, flags="LAYERS"),
            "attempt must be 0 to 2\\^32 - 1, not 4294967296": lambda c: offer(c, attempt=1 << 32),
            "consumers must be 0 to 2\\^32 - 1, not -1": lambda c: offer(c, consumers=-1),
            "timeout_ms must be 0 to 2\\^32 - 1, not -1": lambda c: want(c, timeout_ms=-1),
            "timeout_ms must be a whole number, not 1.5": lambda c: want(c, timeout_ms=1.5),
            "held_tokens must be a whole number, not None": lambda c: want(c, held_tokens=None, timeout_ms=1),
            "mode must be a whole number, not 'PULL'": lambda c: want(c, mode="PULL"),
            "num_tokens must be a whole number, not 32.0": lambda c: c.append(1, 32.0, IDS),
            "offer must be 0 to 2\\^64 - 1, not -1": lambda c: c.ready(-1, 0),
            "layer_count must be 0 to 2\\^32 - 1, not -2": lambda c: c.ready(1, 0, -2),
            "call must be a whole number, not 'k'": lambda c: c.cancel("k"),
            "first_token must be 0 to": lambda c: c.offer("k", num_tokens=32, tables=[baton.Table(IDS, -1)]),
            "of one dimension: 2 dimensions are given": lambda c: c.offer("k", IDS.reshape(1, 2), 32),
            "integers from 0 to 2\\^32 - 1: elements of float64 are given": lambda c: c.offer("k", [1.0, 2.0], 32),
        }
        with solo() as context:
            for said, call in cases.items():
                with self.subTest(said), self.assertRaisesRegex((TypeError, OverflowError), said):
                    call(context)
        for said, make in {
            "tp_rank must be 0 to": lambda: opened(baton.OpenParams("a", baton.Role.BOTH, tp_rank=-1)),
            "tp must be a whole number": lambda: opened(baton.OpenParams("a", baton.Role.BOTH, tp="1")),
        }.items():
            with self.subTest(said), self.assertRaisesRegex((TypeError, OverflowError), said), make():
                pass
        with opened() as context, self.assertRaisesRegex(TypeError, "head_size must be a whole number, not '1'"):
            context.create_cache(baton.Geometry("m", "f32", 4, 2, "1", 1, [baton.Group(16, 64)], [baton.Split(4, 0, 4)]))

    def test_a_call_by_what_stands_for_it(self):
        with solo() as context:
            call = context.offer("k", num_tokens=32, flags=baton.OfferFlags.CHUNKS | baton.OfferFlags.LAYERS)
            chunks = types.SimpleNamespace(id=call)
            context.append(chunks, 16, IDS)
            context.ready(chunks, 0, 1, 16)
            context.cancel(chunks)
            self.assertEqual(events_of(context, [call])[call].status, baton.Status.CANCELLED)

    def test_others(self):
        self.each(lambda c: {
            "engine": (baton.EENGINE, lambda: c.want("k", "nobody", IDS, 32)),
            "engine NUL": (baton.EINVAL, lambda: c.want("k", "solo\0", IDS, 32)),
            "engine bytes": (TypeError, lambda: c.want("k", b"solo", IDS, 32)),
            "consumer": (baton.EENGINE, lambda: c.offer("k", IDS, 32, consumers=["nobody"], user=self)),
            "consumer twice": (baton.EINVAL, lambda: c.offer("k", IDS, 32, consumers=["solo", "solo"])),
            "consumer text": (baton.EINVAL, lambda: c.offer("k", IDS, 32, consumers="solo")),
            "nine consumers": (baton.EINVAL, lambda: c.offer("k", IDS, 32, consumers=["solo"] * 9)),
            "nine seats": (baton.EINVAL, lambda: c.offer("k", IDS, 32, consumers=9)),
            "attach": (baton.EINVAL, lambda: c.offer("k", IDS, 32, attach=b"x" * 257)),
            "attach text": (TypeError, lambda: c.offer("k", IDS, 32, attach="text")),
        })

    def test_what_opens(self):
        Role, Open = baton.Role, baton.OpenParams
        for name, errors, params in (
                ("engine", baton.EINVAL, Open("", Role.BOTH)), ("space", baton.EINVAL, Open("a b", Role.BOTH)),
                ("long", baton.EINVAL, Open("x" * 64, Role.BOTH)), ("NUL", baton.EINVAL, Open("x\0y", Role.BOTH)),
                ("bytes", TypeError, Open(b"solo", Role.BOTH)), ("role", baton.EINVAL, Open("a", 9)),
                ("tp", baton.EINVAL, Open("a", Role.BOTH, tp=0)),
                ("negative", OverflowError, Open("a", Role.BOTH, tp=-1)),
                ("outside", baton.EINVAL, Open("a", Role.BOTH, tp=2, tp_rank=2))):
            with self.subTest(name), self.assertRaises(errors):
                with opened(params):
                    pass
        for comm in (12345, "world", -7):
            with self.subTest(comm), self.assertRaises((baton.EINVAL, AttributeError)):
                baton.Context(Open("solo", Role.BOTH), comm)

    def test_geometries(self):
        cases = {
            "model": (baton.EINVAL, dict(model="")), "long": (baton.EINVAL, dict(model="x" * 64)),
            "dtype": (baton.EINVAL, dict(dtype="x" * 16)), "elem": (baton.EINVAL, dict(elem_bytes=3)),
            "planes": (baton.EINVAL, dict(planes=3)), "groups": (baton.EINVAL, dict(groups=[])),
            "nine": (baton.EINVAL, dict(groups=[baton.Group(1, 1)] * 9)),
            "layers": (baton.EINVAL, dict(layers_total=0)),
            "many": (baton.EINVAL, dict(layers_total=1 << 31)), "text": (TypeError, dict(head_size="1")),
            "negative": (OverflowError, dict(head_size=-1)), "huge": (baton.EINVAL, dict(head_size=1 << 31)),
            "far": (baton.EINVAL, dict(tensors=[baton.Tensor("a", 0, 1 << 40, baton.Strides(1, 1, 1, 1, 1))],
                                       bytes=64)),
        }
        right = dict(model="m", dtype="f32", elem_bytes=4, planes=2, head_size=32, layers_total=1,
                     groups=[baton.Group(16, 64)], splits=[baton.Split(4, 0, 4)])
        with opened() as context:
            for name, (errors, wrong) in cases.items():
                with self.subTest(name), self.assertRaises(errors):
                    context.create_cache(baton.Geometry(**{**right, **wrong}))
            with self.assertRaises(baton.ENOSYS):
                context.create_cache(baton.Geometry(**right), memory=baton.Memory.DEVICE)
            context.create_cache(baton.Geometry(**right))


class Threads(unittest.TestCase):
    def test_many_poll_and_call_at_once(self):
        with solo() as context:
            rounds, workers, lock = 200, 4, threading.Lock()
            events, failures, ended = [], [], collections.Counter()

            def work(number):
                try:
                    own = numpy.array([2 * number], dtype=numpy.uint32)
                    into = numpy.array([2 * number + 1], dtype=numpy.uint32)
                    for i in range(rounds):
                        key = f"{number}/{i}"
                        context.offer(key, own, 16, user=("offer", key), attach=key.encode())
                        context.want(key, "solo", into, 16, user=("want", key))
                        until = time.monotonic() + 20
                        while ended[key] < 2:  # whichever thread took them
                            taken = context.wait(0.001)
                            with lock:
                                events.extend(taken)
                                ended.update(event.user[1] for event in taken)
                            if time.monotonic() > until:
                                raise AssertionError(f"{key} has {ended[key]} events")
                except BaseException as error:
                    failures.append(error)

            threads = [threading.Thread(target=work, args=(i,)) for i in range(workers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            self.assertEqual(len(events), 2 * workers * rounds)
            for event in events:
                what, key = event.user
                self.assertEqual((event.status, event.key), (baton.Status.DONE, key.encode()))
                self.assertEqual(event.attach, key.encode() if what == "want" else b"")
            self.assertEqual(context._users, {})

    def test_close_while_threads_call(self):
        for _ in range(5):
            failures = []

            def call(context):
                try:
                    while True:
                        context.poll()
                        context.stats()
                        context.engines()
                        context.cache.array(0).sum()
                except baton.ESTATE:
                    pass
                except BaseException as error:
                    failures.append(error)

            from mpi4py import MPI

            context = baton.Context(baton.OpenParams("solo", baton.Role.BOTH), MPI.COMM_SELF)
            context.create_cache(geometry())
            context.start()
            threads = [threading.Thread(target=call, args=(context,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            until = time.monotonic() + 20
            while True:
                try:
                    context.close()
                    break
                except baton.InUse:
                    self.assertLess(time.monotonic(), until)
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])

    def test_two_close(self):
        with solo() as context:
            results = []

            def close():
                try:
                    context.close()
                    results.append("closed")
                except (baton.InUse, baton.ESTATE) as error:
                    results.append(type(error).__name__)

            threads = [threading.Thread(target=close) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertIn("closed", results)

    def test_a_verdict_and_a_terminal_event_that_two_threads_take(self):
        """Whichever of them comes first to look at what the caller gave, both find it."""
        given_up, want, verdict = baton.EventType.GIVEN_UP, baton.EventType.WANT, baton.EventType.VERDICT
        none, follows, came = baton.VerdictPlace.NONE, baton.VerdictPlace.FOLLOWS, baton.VerdictPlace.CAME
        with solo() as context:
            for order in ([(want, none)], [(want, follows), (verdict, none)], [(verdict, none), (want, follows)],
                          [(given_up, none), (want, none)], [(given_up, follows), (verdict, none), (want, came)],
                          [(given_up, follows), (want, came), (verdict, none)]):
                with self.subTest(order):
                    token = context._keep("mine")
                    for kind, place in order:
                        self.assertIn(token, context._users)
                        user = baton.ffi.cast("void *", token)
                        event = baton.ffi.new("baton_event_t *", {"type": kind, "verdict": place, "user": user})
                        self.assertEqual(context._event(event).user, "mine")
                    self.assertEqual(context._users, {})


class Signals(unittest.TestCase):
    def test_an_interrupt_at_any_point(self):
        """A handler raises in the midst of calls; the context goes on to work."""
        class Interrupt(BaseException):
            pass

        def interrupt(number, frame):
            raise Interrupt

        with solo() as context:
            before = signal.signal(signal.SIGALRM, interrupt)
            struck = 0
            until = time.monotonic() + 1.0
            try:
                while time.monotonic() < until:
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 0.0005)
                        try:
                            while True:
                                call = context.offer("k", IDS, 32, user=self)
                                context.cancel(call)
                                context.poll()
                                context.stats()
                                context.cache.array(0)
                        except baton.EAGAIN:
                            signal.setitimer(signal.ITIMER_REAL, 0)
                    except Interrupt:
                        struck += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            self.assertGreater(struck, 100)
            while context.wait(0.2):
                pass
            call = context.offer("after", IDS, 32)
            want = context.want("after", "solo", numpy.array([5, 6], dtype=numpy.uint32), 32)
            self.assertTrue(all(e.error == 0 for e in events_of(context, [call, want]).values()))

    def test_a_handler_that_closes(self):
        """In the midst of a call of the same thread: the call fails, or the close is refused."""
        for _ in range(4):
            with solo() as context:
                handled = []

                def close(number, frame):
                    try:
                        context.close()
                    except baton.InUse:
                        pass
                    handled.append(number)

                before = signal.signal(signal.SIGALRM, close)
                signal.setitimer(signal.ITIMER_REAL, 0.002)
                try:
                    while not handled:
                        context.poll()
                        context.describe()
                        context.engines()
                except baton.ESTATE:
                    pass
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    signal.signal(signal.SIGALRM, before)


class Errors(unittest.TestCase):
    def test_they_can_be_pickled(self):
        for error in (baton.EGONE("gone"), baton.InUse("in use"), baton.Error("new")):
            back = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(back), str(back), back.errno), (type(error), str(error), error.errno))

    def test_numbers_that_a_newer_library_knows(self):
        event = baton.EventType(99)
        self.assertEqual((int(event), event.name, isinstance(event, baton.EventType)), (99, "UNKNOWN", True))
        self.assertEqual(repr(baton.Status(-5)), "<Status.UNKNOWN: -5>")
        with self.assertRaises(ValueError):
            baton.Status("done")
        self.assertEqual(type(baton._library.error_of(-99, "")), baton.Error)
        self.assertEqual(baton._library.error_of(-99, "").errno, -99)
        self.assertEqual(str(baton._library.error_of(-13, "")), "The offer has ended.")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: BSD-3-Clause
"""Events in an asyncio loop, with a reactor thread and with the loop's own thread as the reactor."""
import asyncio
import os
import threading
import unittest
import unittest.mock

import numpy

import baton
from baton import aio
from with_world import geometry, opened, solo

IDS, INTO = numpy.array([1, 2], dtype=numpy.uint32), numpy.array([3, 4], dtype=numpy.uint32)


class Asyncio:
    """Each test runs in both modes of progress."""

    progress = baton.Progress.AUTO

    def play(self, scene, **more):
        """The loop must end by itself in 30 s, and leave nothing behind."""
        with solo(progress=self.progress, **more) as context:
            asyncio.run(asyncio.wait_for(scene(context), 30))
            self.assertEqual(context._readers, {})
            for _ in range(100):
                stats = context.stats()
                if stats.wants_live == stats.leases_live == 0:
                    break
                context.wait(0.01)
            self.assertEqual((stats.wants_live, stats.leases_live), (0, 0))

    def test_a_hundred_requests_at_once(self):
        async def request(events, context, number):
            context.cache.array(0)[2 * (number % 16)] = number
            own = numpy.array([2 * (number % 16)], dtype=numpy.uint32)
            offer = events.offer(f"r{number}", own, 16, attach=bytes([number]))
            event = await events.want(f"r{number}", "solo", own + 1, 16)
            self.assertEqual((event.status, event.attach), (baton.Status.DONE, bytes([number])))
            self.assertEqual((await offer).type, baton.EventType.OFFER)
            self.assertEqual((await offer.ended).id, offer.id)
            self.assertTrue((context.cache.array(0)[2 * (number % 16) + 1] == number).all())

        async def scene(context):
            async with aio.Events(context) as events:
                for first in range(0, 100, 10):
                    await asyncio.gather(*(request(events, context, n) for n in range(first, first + 10)))

        self.play(scene)

    def test_a_child_leaves_the_parents_loop_alone(self):
        async def scene(context):
            async with aio.Events(context) as events:
                child = os.fork()
                if child == 0:
                    await events.__aexit__(None, None, None)  # as an exception that goes through the `async with`
                    os._exit(0)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
                offer = events.offer("after", IDS, 32)
                self.assertEqual((await events.want("after", "solo", INTO, 32)).status, baton.Status.DONE)
                await offer

        self.play(scene)

    def test_reasons_are_raised(self):
        async def scene(context):
            async with aio.Events(context) as events:
                with self.assertRaises(baton.ETIMEDOUT):
                    await events.want("never", "solo", INTO, 32, timeout_ms=30)
                offer = events.offer("cancelled", IDS, 32)
                want = events.want("cancelled", "solo", INTO, 32, held_tokens=0, flags=0)
                self.assertEqual((await want).status, baton.Status.DONE)
                self.assertEqual((await offer).status, baton.Status.DONE)
                offer = events.offer("cancel me", IDS, 32)
                offer.cancel()
                with self.assertRaises(baton.ECANCELED):
                    await offer
                with self.assertRaises(baton.EENGINE):
                    events.want("k", "nobody", INTO, 32)

        self.play(scene)

    def test_a_task_that_is_cancelled_waits_for_the_answer(self):
        async def scene(context):
            async with aio.Events(context) as events:
                for how in ("cancel", "timeout", "twice"):
                    want = events.want(how, "solo", INTO, 32, timeout_ms=5000)

                    async def wait(want=want):
                        await want

                    task = asyncio.ensure_future(wait())
                    await asyncio.sleep(0.01)
                    if how == "timeout":
                        with self.assertRaises(asyncio.TimeoutError):
                            await asyncio.wait_for(task, 0.02)
                    else:
                        task.cancel()
                        if how == "twice":
                            await asyncio.sleep(0)
                            task.cancel()
                        with self.assertRaises(asyncio.CancelledError):
                            await task
                    self.assertTrue(want.ended.done())  # so the blocks are the caller's
                    self.assertEqual(want.ended.result().status, baton.Status.CANCELLED)
                # The blocks can be wanted again at once.
                offer = events.offer("again", IDS, 32)
                await events.want("again", "solo", INTO, 32)
                await offer

        self.play(scene)

    def test_a_cancel_that_comes_too_late(self):
        async def scene(context):
            async with aio.Events(context) as events:
                offer = events.offer("k", IDS, 32)
                want = events.want("k", "solo", INTO, 32)
                await asyncio.wait([want.ended])
                want.cancel()
                self.assertEqual((await want).status, baton.Status.DONE)
                await offer

        self.play(scene)

    def test_iteration_has_what_no_transfer_stands_for(self):
        async def scene(context):
            async with aio.Events(context) as events:
                own = context.offer("direct", IDS, 32, user="mine")
                transfer = events.want("direct", "solo", INTO, 32)
                async for event in events:
                    self.assertEqual((event.id, event.user), (own, "mine"))
                    break
                await transfer

        self.play(scene)

    def test_what_is_left_ends_with_the_reader(self):
        async def scene(context):
            async with aio.Events(context) as events:
                want = events.want("never", "solo", INTO, 32, timeout_ms=100)
                iteration = asyncio.ensure_future(events.__anext__())
                await asyncio.sleep(0)
            with self.assertRaisesRegex(baton.ESTATE, "was left before"):
                await want
            with self.assertRaises(baton.ESTATE):
                await iteration
            with self.assertRaises(baton.ESTATE):
                events.want("k", "solo", INTO, 32)

        self.play(scene)

    def test_close_and_a_second_reader_are_refused(self):
        async def scene(context):
            async with aio.Events(context):
                with self.assertRaisesRegex(baton.InUse, "reader of events is attached"):
                    context.close()
                with self.assertRaisesRegex(baton.InUse, "another reader"):
                    async with aio.Events(context):
                        pass

        self.play(scene)

    def test_nobody_takes_the_readers_events(self):
        async def scene(context):
            async with aio.Events(context) as events:
                offer = events.offer("k", IDS, 32)
                for take in (context.poll, lambda: context.wait(1)):
                    with self.assertRaisesRegex(baton.InUse, "reader of events is attached"):
                        take()
                await events.want("k", "solo", INTO, 32)
                await offer
            self.assertEqual(context.poll(), [])

        self.play(scene)

    def test_a_wait_that_is_cut_short_ends_nothing(self):
        """`ended` is done when the blocks are the caller's, and at no other time."""
        async def scene(context):
            async with aio.Events(context) as events:
                want = events.want("k", "solo", INTO, 32, timeout_ms=300)
                for name in ("ended", "answered"):
                    with self.assertRaises(asyncio.TimeoutError):
                        await asyncio.wait_for(getattr(want, name), 0.01)
                    self.assertFalse(getattr(want, name).done())
                    getattr(want, name).cancel()
                    self.assertFalse(getattr(want, name).done())
                    self.assertIs(getattr(want, name), getattr(want, name))  # who asks often makes no more of them
                with self.assertRaises(baton.ETIMEDOUT):
                    await want
                self.assertEqual(want.ended.result().status, baton.Status.EXPIRED)

        self.play(scene)

    def test_a_reader_may_be_entered_again(self):
        async def scene(context):
            events = aio.Events(context)
            with self.assertRaises(baton.ESTATE):
                await events.__anext__()
            for number in range(2):
                async with events:
                    call = context.offer(f"k{number}", IDS, 32, ttl_ms=20)
                    self.assertEqual((await events.__anext__()).id, call)
                with self.assertRaisesRegex(baton.ESTATE, "was left"):
                    await events.__anext__()

        self.play(scene)

    def test_events_that_nobody_takes(self):
        async def scene(context):
            async with aio.Events(context) as events:
                want = events.want("k", "solo", INTO, 32, timeout_ms=5000)
                for number in range(5):
                    context.offer(f"k{number}", IDS, 32, ttl_ms=20)
                with self.assertRaisesRegex(baton.EAGAIN, "iterate"):
                    await want
                taken = [await events.__anext__() for _ in range(3)]
                self.assertEqual({event.type for event in taken}, {baton.EventType.OFFER})
                context.cancel(want.id)

        with unittest.mock.patch.object(aio, "KEPT_MAX", 3):
            self.play(scene)

    def test_given_up(self):
        """What cannot be made here at will: an answer that leaves the blocks with Baton."""
        async def scene(context):
            async with aio.Events(context) as events:
                want = events.want("k", "solo", INTO, 32, timeout_ms=200)
                sure = baton.Event(baton.EventType.GIVEN_UP, baton.Status.FAILED, baton.EPEER.errno, want.id, b"k", b"",
                                   0, None, baton.Mode.PULL, False, 1, "prefill0", 0, 1, 2, 0, {}, 0, 0, 0,
                                   baton.VerdictPlace.NONE, baton.EventType.WANT, "rank 0 is lost")
                want._on_event(sure)
                with self.assertRaisesRegex(aio.GivenUp, "rank 0 is lost") as caught:
                    await want
                self.assertEqual((caught.exception.errno, caught.exception.event), (baton.EPEER.errno, sure))
                self.assertFalse(caught.exception.transfer.ended.done())
                self.assertEqual((await caught.exception.transfer.ended).status, baton.Status.EXPIRED)

        self.play(scene)


class WithReactor(Asyncio, unittest.TestCase):
    progress = baton.Progress.THREAD


class WithCaller(Asyncio, unittest.TestCase):
    progress = baton.Progress.CALLER

    def test_the_loop_may_run_in_another_thread(self):
        """The thread that attaches the reader lends itself from then on."""
        failures = []

        async def scene(context):
            async with aio.Events(context) as events:
                offer = events.offer("k", IDS, 32)
                await events.want("k", "solo", INTO, 32)
                await offer

        with solo(progress=self.progress) as context:
            def run():
                try:
                    asyncio.run(asyncio.wait_for(scene(context), 20))
                except BaseException as error:
                    failures.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
            self.assertEqual(failures, [])


class Loops(unittest.TestCase):
    def test_a_loop_that_is_closed_under_its_reader(self):
        with solo() as context:
            loop = asyncio.new_event_loop()
            reader = aio.Events(context)
            loop.run_until_complete(reader.__aenter__())
            with self.assertRaises(baton.InUse):
                context.close()
            loop.close()

            async def scene(context):
                async with aio.Events(context) as events:
                    offer = events.offer("k", IDS, 32)
                    await events.want("k", "solo", INTO, 32)
                    await offer

            asyncio.run(asyncio.wait_for(scene(context), 20))

    def test_the_reader_may_come_first(self):
        async def scene(context):
            async with aio.Events(context) as events:
                context.start()
                offer = events.offer("k", IDS, 32)
                await events.want("k", "solo", INTO, 32)
                await offer

        with opened(progress=baton.Progress.CALLER) as context:
            context.create_cache(geometry())
            asyncio.run(asyncio.wait_for(scene(context), 20))


if __name__ == "__main__":
    unittest.main()

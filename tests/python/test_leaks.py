# SPDX-License-Identifier: BSD-3-Clause
"""10,000 wants leave nothing behind: no object of Python, no memory of the process, no call of the library."""
import gc
import resource
import tracemalloc
import unittest

import numpy

import baton
from with_world import solo

AT_ONCE, WARM_UP, WANTS = 50, 1000, 10000


def resident():
    """Bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Leaks(unittest.TestCase):
    def play(self, context, wants, number):
        """Offers, wants and what goes wrong with them, each with all that a call can bring."""
        ids, into = numpy.array([1, 2], dtype=numpy.uint32), [3, 4]
        for first in range(0, wants, AT_ONCE):
            open_calls = set()
            for i in range(first, first + AT_ONCE):
                key = f"{number}-{i}"
                offer = context.offer(key, ids, 32, attach=b"x" * 200, user=[key], consumers=["solo"])
                open_calls.add(offer)
                if i % 10 == 9:
                    context.cancel(offer)
                    for wrong in ([99], [1.5], None):
                        try:
                            context.want(key, "solo", wrong, 32, user=[key])
                        except (baton.Error, TypeError):
                            pass
                open_calls.add(context.want(key, "solo", into, 32, user=[key]))
            while open_calls:
                for event in context.wait(10):
                    event.exception()
                    open_calls.remove(event.id)
            context.cache.array(0)[3].sum()
            context.stats()

    def test_wants(self):
        with solo() as context:
            self.play(context, WARM_UP, "warm")
            gc.collect()
            objects, before = len(gc.get_objects()), resident()
            tracemalloc.start()
            self.play(context, WARM_UP, "traced")  # what tracemalloc itself needs
            gc.collect()
            traced = tracemalloc.get_traced_memory()[0]
            self.play(context, WANTS, "wants")
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - traced
            tracemalloc.stop()
            self.assertLess(grown, 16 << 10, "bytes that Python holds")
            self.assertLess(len(gc.get_objects()) - objects, 100, "objects")
            self.assertLess(resident() - before, 16 << 20, "bytes of the process")
            stats = context.stats()
            self.assertEqual((stats.wants_live, stats.leases_live, stats.legs_live, stats.quarantined), (0, 0, 0, 0))
            self.assertEqual(stats.wants, WARM_UP * 2 + WANTS)
            self.assertEqual(context._users, {})
            self.assertLessEqual(len(context._buffers), 1)


    def test_no_block_is_copied(self):
        """A want of an array of uint32 allocates no more than one of a few blocks."""
        blocks = 1 << 14
        group = baton.Geometry("test", "f32", 4, 1, 1, 1, [baton.Group(1, 2 * blocks)], [baton.Split(1, 0, 1)])
        with solo(group) as context:
            peaks = []
            for number in (1, blocks):
                ids = numpy.arange(number, dtype=numpy.uint32)
                tracemalloc.start()
                call = context.want(f"k{number}", "solo", ids, number)
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
                context.cancel(call)
                while not context.wait(1):
                    pass
            self.assertLess(max(peaks), 4096, peaks)
            self.assertLess(abs(peaks[1] - peaks[0]), 512, peaks)


if __name__ == "__main__":
    unittest.main()

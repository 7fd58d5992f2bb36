# SPDX-License-Identifier: BSD-3-Clause
"""The work of a call in Python, counted in instructions of the interpreter, which no other process changes.

Loops within C are not among them: what they make is memory, which test_leaks.py measures.
benchmarks/python/calls times the same calls, on a machine that does nothing else.
"""
import sys
import unittest

import numpy

import baton
from with_world import events_of, solo

BLOCKS = 1 << 10
WANT, POLL = 500, 70  # the most; CPython 3.11 needs 314 and 42


def work_of(call):
    """How many instructions a call takes within functions written in Python, and what it returns."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return count, result


work_of(lambda: None)  # CPython 3.12 counts from the second call on


class Work(unittest.TestCase):
    def test_a_loop_is_counted(self):
        def loop(times):
            for _ in range(times):
                pass

        self.assertGreater(work_of(lambda: loop(1000))[0], work_of(lambda: loop(10))[0] + 990)

    def test_a_want_does_not_grow_with_its_blocks(self):
        group = baton.Geometry("test", "f32", 4, 1, 1, 1, [baton.Group(1, 2 * BLOCKS)], [baton.Split(1, 0, 1)])
        with solo(group) as context:
            counts = {}
            for number in (1, 1, BLOCKS):  # the first meets what is made once
                own = numpy.arange(number, dtype=numpy.uint32)
                into = own + numpy.uint32(BLOCKS)
                key = f"k{len(counts)}-{number}"
                offer = context.offer(key, own, number)
                counts[number], want = work_of(lambda: context.want(key, "solo", into, number))
                for event in events_of(context, [offer, want]).values():
                    self.assertEqual(event.error, 0)
            self.assertEqual(counts[1], counts[BLOCKS])
            self.assertLessEqual(counts[1], WANT)

    def test_a_poll_of_nothing(self):
        with solo() as context:
            work_of(context.poll)
            count, events = work_of(context.poll)
            self.assertEqual(list(events), [])
            self.assertLessEqual(count, POLL)


if __name__ == "__main__":
    unittest.main()

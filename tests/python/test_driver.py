# SPDX-License-Identifier: BSD-3-Clause
"""A driver that lies in a shared library, and a cache of which one tensor is a device's and the other the host's.

    test_driver.py DRIVER_LIBRARY
"""
import ctypes
import mmap
import os
import sys
import unittest

import numpy

import baton
from baton import Group, Owned, Split
from with_world import BLOCK_TOKENS, BLOCKS, CHANNELS, HEADS, events_of, opened

LIBRARY = sys.argv.pop()
SHAPE = (BLOCKS, 2, HEADS, BLOCK_TOKENS, CHANNELS)


def geometry():
    return baton.Geometry("test", "f32", 4, 2, CHANNELS, 2, [Group(BLOCK_TOKENS, BLOCKS)], [Split(HEADS, 0, HEADS)])


class Pages:
    """What numpy needs of memory that nobody may touch."""

    def __init__(self, address):
        self.__array_interface__ = {"version": 3, "typestr": "<f4", "shape": SHAPE, "data": (address, False)}


class Driver(unittest.TestCase):
    def setUp(self):
        num_bytes = 4 * int(numpy.prod(SHAPE))
        file = os.memfd_create("device")
        os.ftruncate(file, num_bytes)
        self.mapping = mmap.mmap(file, num_bytes)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + 3 * [
            ctypes.c_int] + [ctypes.c_long]
        pages = libc.mmap(None, num_bytes, 0, mmap.MAP_SHARED, file, 0)
        self.assertNotEqual(pages, ctypes.c_void_p(-1).value)
        os.close(file)
        self.seen = numpy.frombuffer(self.mapping, numpy.float32).reshape(SHAPE)  # as the engine's kernels see them
        self.device = numpy.asarray(Pages(pages))
        self.library = ctypes.CDLL(LIBRARY)
        ctypes.c_ssize_t.in_dll(self.library, "distance").value = self.seen.ctypes.data - pages

    def owned(self, host, **more):
        return [Owned("layer.0", 0, host), Owned("layer.1", 1, self.device, memory=baton.Memory.DEVICE, **more)]

    def test_a_layer_on_a_device(self):
        host = numpy.zeros(SHAPE, numpy.float32)
        with opened() as context:
            context.set_driver(LIBRARY, "good")
            cache = context.wrap(geometry(), self.owned(host, device=3))
            context.start()
            self.assertIn('device: 1 region of 3; its driver is "of a shared library"', context.describe())
            self.assertTrue(numpy.shares_memory(cache.array("layer.0"), host))
            with self.assertRaisesRegex(baton.EINVAL, "layer.1 lies on a device"):
                cache.array("layer.1")
            for layer, array in enumerate((host, self.seen)):
                array[1] = numpy.arange(array[1].size, dtype=numpy.float32).reshape(array[1].shape) + layer
            calls = [context.offer("k", [1], BLOCK_TOKENS), context.want("k", "solo", [5], BLOCK_TOKENS)]
            events = events_of(context, calls)
            for event in events.values():
                self.assertIsNone(event.exception())
            for array in (host, self.seen):
                self.assertTrue((array[5] == array[1]).all())
                self.assertFalse(array[4].any() or array[6].any())
            self.assertEqual(ctypes.c_uint64.in_dll(self.library, "copied").value, 2 * self.seen[1].nbytes)
            paths = events[calls[1]].path_bytes
            self.assertEqual([paths.get(path, 0) for path in (baton.Path.SHM, baton.Path.STAGED)],
                             [host[1].nbytes, host[1].nbytes])

    def test_what_is_no_driver(self):
        host = numpy.zeros(SHAPE, numpy.float32)
        with opened() as context:
            with self.assertRaisesRegex(baton.ENOSYS, "needs a driver"):
                context.wrap(geometry(), self.owned(host))
            with self.assertRaisesRegex(baton.EINVAL, "nowhere.so: .*No such file"):
                context.set_driver("nowhere.so", "good")
            with self.assertRaisesRegex(baton.EINVAL, "undefined symbol: better"):
                context.set_driver(LIBRARY, "better")
            with self.assertRaisesRegex(baton.EINVAL, "a driver has a name"):
                context.set_driver(LIBRARY, "nameless")
            context.set_driver(LIBRARY, "good")
            with self.assertRaisesRegex(baton.ESTATE, "has a driver"):
                context.set_driver(LIBRARY, "good")
            context.wrap(geometry(), self.owned(host))
            context.start()
            with self.assertRaises(baton.ESTATE):
                context.set_driver(LIBRARY, "good")
        with self.assertRaises(baton.ESTATE):
            context.set_driver(LIBRARY, "good")


if __name__ == "__main__":
    unittest.main()

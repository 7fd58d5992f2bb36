# SPDX-License-Identifier: BSD-3-Clause
"""Views of a cache stay valid, or the close that would end them is refused."""
import ctypes
import gc
import pickle
import unittest
import weakref

import numpy

import baton
from with_world import BLOCK_TOKENS, BLOCKS, CHANNELS, HEADS, geometry, opened, solo

class Resurrected:
    """Comes back to life, with its view, when it is collected as part of a cycle."""

    kept = []

    def __init__(self, view):
        self.view, self.me = view, self

    def __del__(self):
        Resurrected.kept.append(self)


def refuses(test, make):
    """A close is refused while what `make` makes of an array is all that is left of it."""
    with solo() as context:
        array = context.cache.array(0)
        array[:] = 1
        made = make(array)
        del array
        with test.assertRaisesRegex(baton.InUse, r"view the cache are alive \(1, each"):
            context.close()
        context.cache.array(0)[0, 0, 0, 0, 0] = 2  # nothing has happened
        del made


class Views(unittest.TestCase):
    def test_how_many_there_are(self):
        with solo() as context:
            views = [context.cache.array(0), context.cache.array(1), context.cache.memory()]
            views.append(views[0][1:3])  # is counted with what it was made of
            with self.assertRaisesRegex(baton.InUse, r"alive \(3, each"):
                context.close()
            views.clear()

    def test_what_is_made_of_an_array(self):
        makers = {
            "itself": lambda a: a,
            "slice": lambda a: a[3:5, 1, ::2],
            "reshaped": lambda a: a[0, 0].reshape(-1),
            "other type": lambda a: a.view(numpy.uint8),
            "transposed": lambda a: a.T,
            "iterator": lambda a: iter(a),
            "flat": lambda a: a.flat,
            "strides": lambda a: numpy.lib.stride_tricks.as_strided(a, (2,), (4,)),
            "memoryview": lambda a: memoryview(a)[1:],
            "buffer": lambda a: numpy.frombuffer(a[0, 0], dtype=numpy.uint8),
            "dlpack": lambda a: numpy.from_dlpack(a),
            "capsule": lambda a: a.__dlpack__(),
            "ctypes": lambda a: numpy.ctypeslib.as_ctypes(a[0, 0]),
            "ctypes from buffer": lambda a: ctypes.c_char.from_buffer(a[0, 0]),
            "base": lambda a: a.base,
            "in a cycle that lives": lambda a: (lambda box: box.append(box) or box)([a]),
        }
        for name, make in makers.items():
            with self.subTest(name):
                refuses(self, make)

    def test_what_does_not_hold_a_view(self):
        with solo() as context:
            array = context.cache.array(0)
            array[:] = 3
            copies = [pickle.loads(pickle.dumps(array)), array.copy(), array[0].tolist(), array.tobytes()]
            cycle = [array]
            cycle.append(cycle)  # nothing refers to it from outside: close collects it
            del array, cycle
            reference = weakref.ref(context.cache)
        self.assertEqual(float(copies[0].sum()), 3.0 * copies[0].size)
        self.assertIsNotNone(reference)

    def test_a_view_that_comes_back_while_it_is_collected(self):
        with solo() as context:
            Resurrected(context.cache.array(0))
            with self.assertRaises(baton.InUse):
                context.close()
            self.assertEqual(len(Resurrected.kept), 1)
            Resurrected.kept[0].view[:] = 1
            back = Resurrected.kept.pop()
            back.view = back.me = None
        gc.collect()

    def test_before_start_and_after_close(self):
        with opened() as context:
            cache = context.create_cache(geometry())
            for view in (cache.memory, lambda: cache.array(0)):
                with self.assertRaisesRegex(baton.ESTATE, "from start to close"):
                    view()
            context.start()
            self.assertEqual(cache.memory().nbytes, cache.geometry.bytes)
        for view in (cache.memory, lambda: cache.array(0)):
            with self.assertRaisesRegex(baton.ESTATE, "from start to close"):
                view()

    def test_an_exception_that_holds_a_view(self):
        def broken(context):
            view = context.cache.array(0)
            view[0, 0, 0, 0, 99]

        from mpi4py import MPI

        context = baton.Context(baton.OpenParams("solo", baton.Role.BOTH), MPI.COMM_SELF)
        context.create_cache(geometry())
        context.start()
        with self.assertWarnsRegex(RuntimeWarning, "was not closed"), self.assertRaises(IndexError):
            with context:
                broken(context)
        context.close()  # the exception is gone, and its frames

    def test_every_layout_shows_the_same_entries(self):
        Layout = baton.Layout
        for layout in (Layout.HND, Layout.NHD, Layout.KV_BLOCK, Layout.NHD | Layout.KV_FUSED, Layout.BLOCK_MAJOR):
            with self.subTest(layout), solo(geometry().laid_out(layout)) as context:
                cache = context.cache
                for layer in range(len(cache.geometry.tensors)):
                    array = cache.array(layer)
                    self.assertEqual(array.shape, (BLOCKS, 2, HEADS, BLOCK_TOKENS, CHANNELS))
                    array[:] = numpy.arange(array.size, dtype=numpy.float32).reshape(array.shape) + layer
                values = numpy.sort(cache.memory().view(numpy.float32))
                count = cache.array(0).size
                both = numpy.concatenate([numpy.arange(count), numpy.arange(count) + 1]).astype(numpy.float32)
                self.assertTrue((values == numpy.sort(both)).all())  # every element once, and nothing else
                del array, values

    def test_names_and_types(self):
        with solo(geometry(dtype="fp8", elem_bytes=1)) as context:
            cache = context.cache
            self.assertEqual(cache.array("layer.1").dtype, numpy.uint8)
            self.assertEqual(cache.array(0, numpy.int8).dtype, numpy.int8)
            for wrong in (2, -1, "layer.2"):
                with self.assertRaises(baton.EINVAL):
                    cache.array(wrong)
            with self.assertRaisesRegex(baton.EINVAL, "has 4 bytes, and an element has 1"):
                cache.array(0, numpy.float32)
        with solo(geometry(dtype="f64", elem_bytes=8)) as context:
            for kind in (object, [("a", object)]):  # numpy would take the bytes for its references
                with self.assertRaisesRegex(baton.EINVAL, "none of them a reference"):
                    context.cache.array(0, kind)


class Torch(unittest.TestCase):
    def test_what_is_made_of_a_tensor(self):
        import torch

        makers = {
            "from_numpy": lambda a: torch.from_numpy(a),
            "slice": lambda a: torch.from_numpy(a)[2, 1],
            "storage": lambda a: torch.from_numpy(a).storage(),
            "dlpack": lambda a: torch.utils.dlpack.to_dlpack(torch.from_numpy(a)),
            "numpy of it": lambda a: torch.from_numpy(a)[1:].numpy(),
            "parameter": lambda a: torch.nn.Parameter(torch.from_numpy(a)),
        }
        for name, make in makers.items():
            with self.subTest(name):
                refuses(self, make)

    def test_types(self):
        import torch

        with solo(geometry(dtype="bf16", elem_bytes=2)) as context:
            tensor = context.cache.tensor("layer.1")
            self.assertEqual(tensor.dtype, torch.bfloat16)
            tensor[5, 1, 2, 3, 4] = 1.5
            self.assertEqual(int(context.cache.array(1)[5, 1, 2, 3, 4]), 0x3FC0)
            with self.assertRaises(baton.InUse):
                context.close()
            del tensor


if __name__ == "__main__":
    unittest.main()

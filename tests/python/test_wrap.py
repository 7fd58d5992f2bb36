# SPDX-License-Identifier: BSD-3-Clause
"""Caches that lie in arrays of the engine's own: where these lie, how long they stay, and what is refused."""
import gc
import mmap
import os
import tempfile
import unittest
import weakref
from multiprocessing import shared_memory

import numpy

import baton
from baton import Group, Owned, Split
from with_world import BLOCK_TOKENS, BLOCKS, CHANNELS, HEADS, events_of, opened

LATER = baton.OpenFlags.CACHE_LATER
SHAPE = (BLOCKS, 2, HEADS, BLOCK_TOKENS, CHANNELS)
AXES = "block plane head token channel"


class Marked(numpy.ndarray):
    """An array that can be asked whether it is still there."""


def geometry(layers=1, **other):
    right = dict(model="test", dtype="f32", elem_bytes=4, planes=2, head_size=CHANNELS, layers_total=layers,
                 groups=[Group(BLOCK_TOKENS, BLOCKS)], splits=[Split(HEADS, 0, HEADS)])
    return baton.Geometry(**{**right, **other})


def zeros(shape=SHAPE, dtype=numpy.float32):
    return numpy.zeros(shape, dtype=dtype)


def owned(array, axes=AXES, **more):
    return [Owned("layer.0", 0, array, axes, **more)]


class Wrap(unittest.TestCase):
    def move(self, context, array):
        """Block 1 of a canonical view goes to block 5."""
        array[1] = numpy.arange(array[1].size, dtype=array.dtype).reshape(array[1].shape) % 100
        calls = [context.offer("k", [1], BLOCK_TOKENS), context.want("k", "solo", [5], BLOCK_TOKENS)]
        for event in events_of(context, calls).values():
            self.assertIsNone(event.exception())
        self.assertTrue((array[5] == array[1]).all())
        self.assertFalse((array[5] == array[2]).all())

    def test_any_strides(self):
        padded = zeros((BLOCKS, 2, HEADS, BLOCK_TOKENS, CHANNELS + 3))
        fused = zeros((BLOCKS, HEADS, BLOCK_TOKENS, 2 * CHANNELS))
        cases = {
            "as it is": (zeros(), AXES),
            "planes first": (zeros((2, BLOCKS, HEADS, BLOCK_TOKENS, CHANNELS)), "plane block head token channel"),
            "NHD": (zeros((BLOCKS, 2, BLOCK_TOKENS, HEADS, CHANNELS)), "block plane token head channel"),
            "fused": (fused.reshape(BLOCKS, HEADS, BLOCK_TOKENS, 2, CHANNELS), "block head token plane channel"),
            "padded": (padded[..., 1:-2], AXES),
            "not aligned": (numpy.frombuffer(bytearray(4 * padded.size + 1), dtype=numpy.uint8)[1:].view(numpy.float32)
                            [:zeros().size].reshape(SHAPE), AXES),
            "Fortran's order": (numpy.asfortranarray(zeros()), AXES),
        }
        for name, (array, axes) in cases.items():
            with self.subTest(name), opened() as context:
                cache = context.wrap(geometry(), owned(array, axes))
                context.start()
                view = cache.array("layer.0")
                self.assertEqual(view.shape, SHAPE)
                self.assertTrue(numpy.shares_memory(view, array))
                self.move(context, view)

    def test_fused_as_two_tensors(self):
        """K and V in one axis are two tensors of one plane, in one region."""
        fused = zeros((BLOCKS, BLOCK_TOKENS, HEADS, 2 * CHANNELS))
        axes = "block token head channel"
        with opened() as context:
            cache = context.wrap(geometry(planes=1), [Owned("k", 0, fused[..., :CHANNELS], axes),
                                                      Owned("v", 0, fused[..., CHANNELS:], axes)])
            context.start()
            self.assertIn("wrapped, 1 region,", context.describe())
            self.assertEqual([t.offset for t in cache.geometry.tensors], [0, 4 * CHANNELS])
            self.move(context, fused)

    def test_sizes_of_its_own(self):
        """K and V as tensors of one plane, elements of another size, a state of one token."""
        groups = [Group(BLOCK_TOKENS, BLOCKS), Group(1, 8, baton.Kind.STATE)]
        k, v = zeros((BLOCKS, HEADS, BLOCK_TOKENS, CHANNELS)), zeros((BLOCKS, HEADS, BLOCK_TOKENS, CHANNELS))
        state = zeros((8, HEADS, 5), numpy.float64)
        with opened() as context:
            cache = context.wrap(geometry(groups=groups, elem_bytes=0), [
                Owned("k", 0, k, "block head token channel"), Owned("v", 0, v, "block head token channel"),
                Owned("state", 0, state, "block head channel", group=1)])
            context.start()
            tensors = {t.name: t for t in cache.geometry.tensors}
            self.assertEqual((tensors["k"].planes, tensors["k"].elem_bytes, tensors["k"].head_size), (1, 0, 0))
            own = tensors["state"]
            self.assertEqual((own.planes, own.elem_bytes, own.head_size), (1, 8, 5))
            self.assertEqual(len({t.region for t in tensors.values()}), 3)
            k[2], v[2], state[3] = 1, 2, 3

            def tables(block, entry):
                return [baton.Table([block]), baton.Table([entry])]

            calls = [context.offer("k", tables=tables(2, 3), num_tokens=BLOCK_TOKENS),
                     context.want("k", "solo", tables=tables(7, 4), num_tokens=BLOCK_TOKENS)]
            for event in events_of(context, calls).values():
                self.assertIsNone(event.exception())
            self.assertEqual([float(a.min()) for a in (k[7], v[7], state[4])], [1, 2, 3])
            self.assertEqual([float(a.max()) for a in (k[8], v[6], state[5])], [0, 0, 0])

    def test_arrays_of_one_allocation_are_one_region(self):
        both = zeros((BLOCKS, 2, *SHAPE[1:]))
        with opened() as context:
            cache = context.wrap(geometry(2), [Owned(f"layer.{i}", i, both[:, i]) for i in range(2)])
            self.assertEqual([t.region for t in cache.geometry.tensors], [0, 0])
            self.assertEqual(cache.geometry.tensors[1].offset, both.strides[1])
            context.start()
            for layer in range(2):
                self.move(context, cache.array(layer))
                both[:, layer][5] = 0

    def test_arrays_are_kept_until_close(self):
        array = zeros().view(Marked)
        alive = weakref.ref(array)
        with opened() as context:
            context.wrap(geometry(), owned(array))
            del array
            context._cache = None
            gc.collect()
            self.assertIsNotNone(alive())
            context.start()
            alive()[1] = 4
            calls = [context.offer("k", [1], BLOCK_TOKENS), context.want("k", "solo", [5], BLOCK_TOKENS)]
            events_of(context, calls)
            self.assertEqual(float(alive()[5].min()), 4)
        gc.collect()
        self.assertIsNone(alive())

    def test_arrays_of_a_refused_cache_are_not_kept(self):
        array = zeros().view(Marked)
        alive = weakref.ref(array)
        with opened() as context:
            with self.assertRaises(baton.EINVAL):
                context.wrap(geometry(model=""), owned(array))
            del array
            gc.collect()
            self.assertIsNone(alive())
            context.wrap(geometry(), owned(zeros()))  # it may be tried again

    def test_views_do_not_keep_close(self):
        array = zeros()
        with opened() as context:
            cache = context.wrap(geometry(), owned(array))
            context.start()
            view = cache.array(0)
        view[0] = 1
        self.assertEqual(float(array[0].min()), 1)

    def test_what_owns_the_memory_cannot_let_it_go(self):
        size = 4 * zeros().size
        shared = shared_memory.SharedMemory(create=True, size=size)
        mapped = mmap.mmap(-1, size)
        owners = {"mmap": (mapped, mapped.close), "shared memory": (shared.buf, shared.close),
                  "bytearray": ((grows := bytearray(size)), lambda: grows.append(1))}
        for name, (buffer, let_go) in owners.items():
            with self.subTest(name), opened() as context:
                array = numpy.ndarray(SHAPE, numpy.float32, buffer)
                cache = context.wrap(geometry(), owned(array))
                context.start()
                with self.assertRaises(BufferError):
                    let_go()
                self.move(context, cache.array(0))
            del array, cache, context, buffer
        owners.clear()
        gc.collect()
        shared.close()
        shared.unlink()

    def test_memory_that_is_read_only(self):
        with tempfile.TemporaryFile() as file:
            file.write(bytes(4 * zeros().size))
            file.flush()
            arrays = {"a mapping": numpy.memmap(file, dtype=numpy.float32, mode="r", shape=SHAPE),
                      "bytes": numpy.frombuffer(bytes(4 * zeros().size), dtype=numpy.float32).reshape(SHAPE)}
            for name, array in arrays.items():
                with self.subTest(name), opened() as context:
                    context.wrap(geometry(), owned(array))
                    context.start()
                    with self.assertRaisesRegex(baton.EINVAL, "read-only"):
                        context.want("k", "solo", [5], BLOCK_TOKENS)
                    offer = context.offer("k", [1], BLOCK_TOKENS)
                    release = context.want("k", "solo", num_tokens=0)  # nothing is needed
                    ended = events_of(context, [offer, release])
                    self.assertEqual({event.status for event in ended.values()}, {baton.Status.DONE})

    def test_one_array_of_two_is_read_only(self):
        arrays = [zeros(), zeros()]
        arrays[0].flags.writeable = False
        with opened() as context:
            context.wrap(geometry(2), [Owned(f"layer.{i}", i, arrays[i]) for i in range(2)])
            context.start()
            with self.assertRaisesRegex(baton.EINVAL, "read-only"):
                context.want("k", "solo", [5], BLOCK_TOKENS)

    def test_later_than_start(self):
        for progress in (baton.Progress.THREAD, baton.Progress.CALLER):
            with self.subTest(progress), opened(flags=LATER, progress=progress) as context:
                context.start()
                self.assertFalse(context.cache_ready())
                with self.assertRaises(baton.EAGAIN):
                    context.offer("k", [1], BLOCK_TOKENS)
                array = zeros()
                context.wrap(geometry(), owned(array))
                for _ in range(1000):
                    if context.cache_ready():
                        break
                    context.wait(0.01)
                self.move(context, array)
        with opened() as context:
            context.start()
            self.assertTrue(context.cache_ready())
            with self.assertRaises(baton.ESTATE):
                context.wrap(geometry(), owned(zeros()))

    def test_a_memfd(self):
        """The page's lines. The array keeps the mapping, and the mapping has a descriptor of its own."""
        fd = os.memfd_create("kv")
        os.ftruncate(fd, 4 * zeros().size)
        mapping = mmap.mmap(fd, 0)
        os.close(fd)
        array = numpy.frombuffer(mapping, numpy.float32).reshape(SHAPE)
        with opened() as context:
            context.wrap(geometry(), owned(array, memory=baton.Memory.SHARED))
            del array
            context.start()
            with self.assertRaises(BufferError):
                mapping.close()
            self.move(context, context.cache.array(0))

    def test_what_contradicts_the_geometry(self):
        bf16 = dict(dtype="bf16", elem_bytes=2, planes=1)
        one = (BLOCKS, HEADS, BLOCK_TOKENS, CHANNELS)
        axes = "block head token channel"
        size, planes = "elements of {} bytes, and the geometry says elem_bytes=2", "2 places .* geometry says planes=1"
        cases = {
            "float32": (size.format(4), owned(zeros(one), axes)),
            "uint8": (size.format(1), owned(zeros(one, numpy.uint8), axes)),
            "two planes": (planes, owned(zeros(dtype=numpy.uint16))),
            "the second": (size.format(8), [*owned(zeros(one, numpy.int16), axes),
                                            Owned("other", 0, zeros(one, numpy.float64), axes)]),
        }
        with opened() as context:
            for name, (said, arrays) in cases.items():
                with self.subTest(name), self.assertRaisesRegex(baton.EINVAL, said):
                    context.wrap(geometry(**bf16), arrays)
            context.wrap(geometry(**bf16), owned(zeros(one, numpy.int16), axes))

    def test_what_fits_the_geometry(self):
        for dtype in (numpy.uint16, numpy.int16, numpy.float16):
            for left_open in ({}, dict(elem_bytes=0), dict(planes=0), dict(elem_bytes=0, planes=0)):
                given = {**dict(dtype="bf16", elem_bytes=2, planes=2), **left_open}
                with self.subTest(dtype=dtype, **left_open), opened() as context:
                    cache = context.wrap(geometry(**given), owned(zeros(dtype=dtype)))
                    self.assertEqual((cache.geometry.elem_bytes, cache.geometry.planes), (2, 2))
                    context.start()
                    self.move(context, cache.array(0))

    def test_refused(self):
        cases = {
            "list": (TypeError, owned([1.0])),
            "axes missing": (baton.EINVAL, owned(zeros(), "block plane head token")),
            "axes twice": (baton.EINVAL, owned(zeros(), "block plane head token token")),
            "axes unknown": (baton.EINVAL, owned(zeros(), "block plane head token layer")),
            "blocks": (baton.EINVAL, owned(zeros()[1:])),
            "heads": (baton.EINVAL, owned(zeros()[:, :, 1:])),
            "tokens": (baton.EINVAL, owned(zeros()[..., 1:, :])),
            "empty": (baton.EINVAL, owned(zeros()[..., :0])),
            "backwards": (baton.EINVAL, owned(zeros()[::-1])),
            "overlapping": (baton.EINVAL, owned(numpy.broadcast_to(zeros((1, *SHAPE[1:])), SHAPE))),
            "elements": (baton.EINVAL, owned(zeros(dtype=numpy.complex128))),
            "objects": (baton.EINVAL, owned(zeros(dtype=object))),
            "records of objects": (baton.EINVAL, owned(zeros(dtype=[("a", object)]))),
            "bytes in the other order": (baton.EINVAL, owned(zeros(dtype=numpy.dtype(numpy.float32).newbyteorder()))),
            "group": (baton.EINVAL, owned(zeros(), group=1)),
            "split": (baton.EINVAL, owned(zeros(), split=-1)),
            "layer": (baton.EINVAL, [Owned("layer.0", 3, zeros())]),
            "layer below 0": (OverflowError, [Owned("layer.0", -1, zeros())]),
            "name": (baton.EINVAL, [Owned("", 0, zeros())]),
            "long name": (baton.EINVAL, [Owned("x" * 64, 0, zeros())]),
            "one name twice": (baton.EINVAL, [Owned("a", 0, zeros()), Owned("a", 0, zeros())]),
            "nothing": (baton.EINVAL, []),
            "a string": (AttributeError, ["layer.0"]),
        }
        with opened() as context:
            for name, (errors, arrays) in cases.items():
                with self.subTest(name), self.assertRaises(errors):
                    context.wrap(geometry(dtype="f64", elem_bytes=8) if "objects" in name else geometry(), arrays)
            with self.assertRaises(baton.EINVAL):
                context.wrap(geometry(), owned(zeros(), memory=17))
            with self.assertRaisesRegex(baton.EINVAL, "are the most"):
                context.wrap(geometry(), [Owned(str(i), 0, zeros()) for i in range(baton.TENSORS_MAX + 1)])
            with self.assertRaises(baton.EINVAL):  # private memory cannot be mapped by others
                context.wrap(geometry(), owned(zeros(), memory=baton.Memory.SHARED))
            context.wrap(geometry(), owned(zeros()))
            with self.assertRaises(baton.ENOSYS):
                context.wrap(geometry(), owned(zeros()))
            with self.assertRaisesRegex(baton.EINVAL, "arrays of the engine's own"):
                context.cache.memory()


class Torch(unittest.TestCase):
    def test_tensors(self):
        import torch

        for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.uint8, torch.float64):
            tensor = torch.zeros((2, BLOCKS, HEADS, BLOCK_TOKENS, CHANNELS), dtype=dtype)
            size = tensor.element_size()
            name = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}.get(dtype, "other")
            with self.subTest(dtype), opened() as context:
                cache = context.wrap(geometry(dtype=name, elem_bytes=size),
                                     owned(tensor, "plane block head token channel"))
                context.start()
                tensor[:, 1] = 3
                calls = [context.offer("k", torch.tensor([1]), BLOCK_TOKENS),
                         context.want("k", "solo", torch.tensor([5], dtype=torch.int32), BLOCK_TOKENS)]
                events_of(context, calls)
                self.assertTrue(bool((tensor[:, 5] == 3).all()))
                self.assertTrue(bool((tensor[:, 6] == 0).all()))
                if name != "other":
                    self.assertEqual(cache.tensor(0).dtype, dtype)
                    self.assertEqual(float(cache.tensor("layer.0")[5, 1, 0, 0, 0]), 3)
                for resize in (lambda: tensor.resize_(10**7), lambda: tensor.storage().resize_(0)):
                    with self.assertRaisesRegex(RuntimeError, "not resizable"):
                        resize()
                context._cache = cache = None

    def test_what_is_no_memory_here(self):
        import torch

        with opened() as context:
            with self.assertRaisesRegex(baton.EINVAL, "only memory of the CPU"):
                context.wrap(geometry(), owned(torch.zeros(SHAPE, device="meta")))
            with self.assertRaisesRegex(baton.EINVAL, "of 16 bytes"):
                context.wrap(geometry(), owned(torch.zeros(SHAPE, dtype=torch.complex128)))
            with self.assertRaises((RuntimeError, TypeError)):
                context.wrap(geometry(), owned(torch.zeros(SHAPE).to_sparse()))
            parameter = torch.nn.Parameter(torch.zeros(SHAPE))  # its gradient is of no concern
            context.wrap(geometry(), owned(parameter))


if __name__ == "__main__":
    unittest.main()

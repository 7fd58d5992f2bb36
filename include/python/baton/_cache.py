# SPDX-License-Identifier: BSD-3-Clause
"""The cache of a context: its memory as numpy arrays and torch tensors."""
from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any, Callable

import numpy

from ._declarations import EINVAL, ESTATE
from ._geometry import Geometry, Tensor
from ._memory import Root, others

if TYPE_CHECKING:
    import torch

_NUMPY = {"f16": "float16", "fp16": "float16", "f32": "float32", "fp32": "float32", "f64": "float64",
          "fp64": "float64"}
_TORCH = {"bf16": "bfloat16", "f16": "float16", "fp16": "float16", "f32": "float32", "fp32": "float32",
          "f64": "float64", "fp64": "float64", "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2"}
_SIGNED = {1: numpy.uint8, 2: numpy.int16, 4: numpy.int32, 8: numpy.int64}


class Cache:
    """Memory cut into blocks. Made by Context.create_cache and Context.wrap.

    Views of memory that Baton allocated keep Context.close from closing as long as they live, whatever was made of
    them: slices, tensors, buffers. A number that was taken for an address keeps nothing. Of arrays that the engine owns
    there are views too, unless they lie on a device; those live as long as the engine likes.
    """

    def __init__(self, geometry: Geometry, arrays: dict[str, numpy.ndarray[Any, Any]] | None = None) -> None:
        self.geometry = geometry
        self._arrays = arrays
        self._root: Root | None = None
        self._check: weakref.WeakMethod[Callable[[], None]] | None = None

    def _expose(self, address: int, check: Callable[[], None]) -> None:
        """The memory is there as long as `check` raises nothing. It is a method of the context, or none is needed."""
        self._root = Root(address, self.geometry.bytes)
        self._check = weakref.WeakMethod(check)

    def _withdraw(self) -> int:
        """No view can be made any more. Not 0: so many that array, tensor and memory gave are alive, or what was made
        of them, and nothing has changed."""
        if self._root is None:
            return 0
        box = [self._root]
        self._root = None
        views = -1
        try:
            if others(box) > 0:
                gc.collect()  # a view may be part of a cycle that nothing refers to
            views = others(box)
        finally:
            if views != 0:
                self._root = box.pop()
        return views

    def memory(self) -> numpy.ndarray[Any, numpy.dtype[numpy.uint8]]:
        """All bytes of a cache that Baton allocated, after start."""
        if self._arrays is not None:
            raise EINVAL("this cache lies in arrays of the engine's own")
        root = self._root
        if root is None:
            raise ESTATE("the memory of a cache is there from start to close")
        check = self._check() if self._check is not None else None
        if check is not None:
            check()
        return numpy.asarray(root)

    def _tensor(self, which: int | str) -> Tensor:
        if isinstance(which, str):
            for tensor in self.geometry.tensors:
                if tensor.name == which:
                    return tensor
            raise EINVAL(f"the cache has no tensor {which!r}")
        if not 0 <= which < len(self.geometry.tensors):
            raise EINVAL(f"tensor {which} of {len(self.geometry.tensors)}")
        return self.geometry.tensors[which]

    def array(self, tensor: int | str, dtype: Any = None) -> numpy.ndarray[Any, Any]:
        """A view of one tensor, by its place or its name: [block, plane, head, token, channel], in any layout.

        Without dtype, elements are what the geometry's dtype says where numpy has that ("f16", "f32"), else unsigned
        integers of their size.
        """
        t = self._tensor(tensor)
        g = self.geometry
        size = t.elem_bytes or g.elem_bytes
        if dtype is None:
            dtype = _NUMPY.get(g.dtype, f"u{size}")
            if numpy.dtype(dtype).itemsize != size:
                dtype = f"u{size}"
        kind = numpy.dtype(dtype)
        if kind.itemsize != size or kind.hasobject:
            raise EINVAL(f"{kind} has {kind.itemsize} bytes, and an element has {size}, none of them a reference")
        if self._arrays is not None and t.name not in self._arrays:
            raise EINVAL(f"{t.name} lies on a device, where only a driver may touch it")
        if self._arrays is not None:
            return self._arrays[t.name].view(dtype)
        group, split = g.groups[t.group], g.splits[t.split]
        shape = (group.num_blocks, t.planes or g.planes, split.head_count, group.block_tokens,
                 t.head_size or g.head_size)
        strides = (t.stride.block, t.stride.plane, t.stride.head, t.stride.token, t.stride.channel)
        return numpy.ndarray(shape, dtype, self.memory().data, t.offset, strides)

    def tensor(self, tensor: int | str, dtype: torch.dtype | None = None) -> torch.Tensor:
        """As array, as a tensor of torch: bf16 is torch.bfloat16."""
        import torch

        size = self._tensor(tensor).elem_bytes or self.geometry.elem_bytes
        raw = torch.from_numpy(self.array(tensor, _SIGNED[size]))
        if dtype is None:
            dtype = getattr(torch, _TORCH.get(self.geometry.dtype, ""), raw.dtype)
            if torch.empty(0, dtype=dtype).element_size() != size:
                dtype = raw.dtype
        return raw.view(dtype)

# SPDX-License-Identifier: BSD-3-Clause
"""A cache over arrays and tensors that the engine owns: where they lie, as regions and strides."""
from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Sequence, Union

import numpy

from ._declarations import EINVAL, Memory
from ._geometry import Geometry, Strides, Tensor

if TYPE_CHECKING:
    import torch

AXES = ("block", "plane", "head", "token", "channel")
_RAW = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}

Array = Union["numpy.ndarray[Any, Any]", "torch.Tensor"]


@dataclass(frozen=True)
class Owned:
    """A tensor of the cache that the engine owns: a numpy array or a torch tensor.

    `axes` names the array's axes in their order, out of block, plane, head, token and channel. An axis that it does not
    name has one place. Any strides will do that do not overlap: K and V fused into one axis are two by reshape.
    `memory` is the kind of memory that it lies in. What lies on a device, by its number `device`, is Memory.DEVICE, and
    nothing of it is touched here: a numpy array is then its address, its shape and its strides.
    """

    name: str
    layer: int
    array: Array
    axes: str = "block plane head token channel"
    group: int = 0
    split: int = 0
    memory: Memory = Memory.HOST
    device: int = 0


@dataclass(frozen=True)
class Region:
    """The bytes [first, end) of one kind of memory."""

    first: int
    end: int
    memory: Memory
    device: int


class Wrapped:
    """What a geometry and its arrays come to."""

    def __init__(self, geometry: Geometry, owned: Sequence[Owned]) -> None:
        arrays = {o.name: _in_order(o) for o in owned}
        for o in owned:
            _check_sizes(geometry, o, arrays[o.name])
        if len(arrays) < len(owned):
            raise EINVAL("two arrays have the same name")
        self.regions = _merge([Region(*_span(arrays[o.name]), o.memory, o.device) for o in owned])
        geometry = _closed(geometry, list(arrays.values()))
        tensors = [_tensor(geometry, o, arrays[o.name], self.regions) for o in owned]
        self.geometry = replace(geometry, tensors=tensors, bytes=0)
        self.is_writable = all(array.flags.writeable for array in arrays.values())
        self.kept = [*arrays.values(), *(_hold(array) for array in arrays.values())]
        self.arrays = {o.name: arrays[o.name] for o in owned if o.memory != Memory.DEVICE}


class _Place:
    """Where a tensor of a device lies, for numpy, which looks at nothing but this."""

    def __init__(self, tensor: torch.Tensor) -> None:
        size = tensor.element_size()
        self.kept = tensor
        self.__array_interface__ = {"version": 3, "typestr": f"<u{size}", "shape": tuple(tensor.shape),
                                    "data": (tensor.data_ptr(), False),
                                    "strides": tuple(size * stride for stride in tensor.stride())}


def _as_numpy(o: Owned) -> numpy.ndarray[Any, Any]:
    if isinstance(o.array, numpy.ndarray):
        return o.array
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(o.array, torch.Tensor):
        raise TypeError(f"{o.name} must be an array of numpy or a tensor of torch, not {type(o.array).__name__}")
    size = o.array.element_size()
    if size not in _RAW:
        raise EINVAL(f"{o.name} has elements of {size} bytes: 1, 2, 4 or 8 can be wrapped")
    if o.memory == Memory.DEVICE and o.array.layout == torch.strided and o.array.data_ptr() != 0:
        return numpy.asarray(_Place(o.array))
    if o.array.device.type != "cpu":
        raise EINVAL(f"{o.name} lies on {o.array.device}: only memory of the CPU can be wrapped as {o.memory!r}")
    raw: numpy.ndarray[Any, Any] = o.array.detach().view(getattr(torch, _RAW[size])).numpy()
    return raw


def _in_order(o: Owned) -> numpy.ndarray[Any, Any]:
    """The array with all five axes, in the order of AXES."""
    array, names = _as_numpy(o), o.axes.split()
    if len(set(names)) != len(names) or not set(names) <= set(AXES) or len(names) != array.ndim:
        raise EINVAL(f"{o.name}: the axes {o.axes!r} of an array of {array.ndim} dimensions must be as many, each "
                     f"once, out of {', '.join(AXES)}")
    if array.size == 0:
        raise EINVAL(f"{o.name} has no elements")
    if array.dtype.hasobject or not array.dtype.isnative:
        raise EINVAL(f"{o.name} has elements of {array.dtype}: they must be plain, and of this machine's byte order")
    present = array.transpose([names.index(axis) for axis in AXES if axis in names])
    return present[tuple(slice(None) if axis in names else None for axis in AXES)]


def _check_sizes(g: Geometry, o: Owned, array: numpy.ndarray[Any, Any]) -> None:
    """What the geometry says of elements and planes holds for all arrays. One without the axis plane has one of them."""
    if g.elem_bytes not in (0, array.itemsize):
        raise EINVAL(f"{o.name} has elements of {array.itemsize} bytes, and the geometry says elem_bytes={g.elem_bytes}: "
                     "0 there leaves it to the arrays")
    planes = array.shape[AXES.index("plane")]
    if g.planes not in (0, planes) and "plane" in o.axes.split():
        raise EINVAL(f"{o.name} has {planes} places on its axis plane, and the geometry says planes={g.planes}: 0 there "
                     "leaves it to the arrays")


def _closed(g: Geometry, arrays: Sequence[numpy.ndarray[Any, Any]]) -> Geometry:
    """The geometry with what it leaves open, as the first array has it: a geometry has 1 plane, or 2."""
    if not arrays:
        return g
    planes = arrays[0].shape[AXES.index("plane")]
    return replace(g, elem_bytes=g.elem_bytes or arrays[0].itemsize, planes=g.planes or (planes if planes == 2 else 1))


def _address(array: numpy.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _span(array: numpy.ndarray[Any, Any]) -> tuple[int, int]:
    """The address of the first byte, and that behind the last."""
    reach = [stride * (count - 1) for stride, count in zip(array.strides, array.shape)]
    first = _address(array) + sum(r for r in reach if r < 0)
    return first, _address(array) + sum(r for r in reach if r > 0) + array.itemsize


def _merge(spans: Sequence[Region]) -> list[Region]:
    """The regions: spans of one kind that overlap are one."""
    regions: list[Region] = []
    for span in sorted(spans, key=lambda span: span.first):
        last = regions[-1] if regions else None
        if last and span.first < last.end and (span.memory, span.device) == (last.memory, last.device):
            regions[-1] = replace(last, end=max(span.end, last.end))
        else:
            regions.append(span)
    return regions


def _tensor(g: Geometry, o: Owned, array: numpy.ndarray[Any, Any], regions: Sequence[Region]) -> Tensor:
    if not (0 <= o.group < len(g.groups) and 0 <= o.split < len(g.splits)):
        raise EINVAL(f"{o.name}: there is no group {o.group} or no split {o.split}")
    blocks, planes, heads, tokens, channels = array.shape
    group, split = g.groups[o.group], g.splits[o.split]
    for axis, has, needs in (("block", blocks, group.num_blocks), ("head", heads, split.head_count),
                             ("token", tokens, group.block_tokens)):
        if has != needs:
            raise EINVAL(f"{o.name} has {has} places on its axis {axis}, and the geometry says {needs}")
    address = _address(array)
    region = next(i for i, r in enumerate(regions)
                  if r.first <= address < r.end and (r.memory, r.device) == (o.memory, o.device))
    return Tensor(o.name, o.layer, address - regions[region].first, Strides(*array.strides), region, o.group, o.split,
                  planes if planes != g.planes else 0, channels if channels != g.head_size else 0,
                  array.itemsize if array.itemsize != g.elem_bytes else 0)


def _hold(array: numpy.ndarray[Any, Any]) -> object:
    """An export of the buffer that the array lies in, so that its owner (an mmap, a SharedMemory) refuses to close."""
    owner: Any = array
    while isinstance(owner, numpy.ndarray) and owner.base is not None:
        owner = owner.base
    try:
        return memoryview(owner)
    except TypeError:  # it has no buffer: the array's reference is all that there is
        return owner

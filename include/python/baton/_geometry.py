# SPDX-License-Identifier: BSD-3-Clause
"""What a cache's memory looks like: the structs of baton.h, as dataclasses."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Sequence

from ._declarations import GROUPS_MAX, SPLITS_MAX, TENSORS_MAX, EINVAL, Kind, Layout
from ._library import ffi, last_error, library
from ._number import misfit


@dataclass(frozen=True)
class Strides:
    """Bytes between neighbours in each direction."""

    block: int
    plane: int
    head: int
    token: int
    channel: int


@dataclass(frozen=True)
class Tensor:
    """One layer's part of a cache. planes, head_size and elem_bytes are 0 where they are the geometry's."""

    name: str
    layer: int
    offset: int
    stride: Strides
    region: int = 0
    group: int = 0
    split: int = 0
    planes: int = 0
    head_size: int = 0
    elem_bytes: int = 0


@dataclass(frozen=True)
class Group:
    """Tensors that share a block table."""

    block_tokens: int
    num_blocks: int
    kind: Kind = Kind.FULL
    window_tokens: int = 0
    blocks_per_id: int = 0


@dataclass(frozen=True)
class Split:
    """Heads of the model, and those that this rank holds."""

    heads_total: int
    head_first: int
    head_count: int


@dataclass(frozen=True)
class Geometry:
    """What one rank's cache holds. layer_count 0 means all layers from layer_first on.

    `tensors` say where each layer lies. laid_out fills them in for a usual layout; Context.wrap takes them from arrays,
    and elem_bytes and planes too where these are 0.
    """

    model: str
    dtype: str
    elem_bytes: int
    planes: int
    head_size: int
    layers_total: int
    groups: Sequence[Group]
    splits: Sequence[Split]
    layer_first: int = 0
    layer_count: int = 0
    tensors: Sequence[Tensor] = field(default=(), repr=False)
    bytes: int = 0

    def __post_init__(self) -> None:
        for name, most in (("groups", GROUPS_MAX), ("splits", SPLITS_MAX), ("tensors", TENSORS_MAX)):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            if len(getattr(self, name)) > most:
                raise EINVAL(f"{len(getattr(self, name))} {name} are given, and {most} are the most")
        if self.layer_count == 0 and self.layers_total > self.layer_first:
            object.__setattr__(self, "layer_count", self.layers_total - self.layer_first)

    def laid_out(self, layout: Layout = Layout.HND) -> Geometry:
        """The same cache with the tensors and the size of a usual layout. They are called layer.<n>."""
        if self.layer_count > TENSORS_MAX:
            raise EINVAL(f"{self.layer_count} layers are more than {TENSORS_MAX} tensors can hold")
        tensors = ffi.new("baton_tensor_t[]", max(self.layer_count, 1))
        given, _ = to_c(replace(self, tensors=(), bytes=0))
        rc = library().baton_geometry_layout(given, tensors, int(layout))
        if rc < 0:
            raise last_error(rc)
        return replace(self, tensors=[_tensor_of(tensors[i]) for i in range(given.num_tensors)], bytes=given.bytes)


def text_of(array: Any) -> str:
    """A char array of the library's, which ends at its NUL."""
    return str(ffi.string(array).decode(errors="replace"))


def put_text(array: Any, name: str, text: str) -> None:
    """Fills a char array, NUL included. What does not fit, or has a NUL inside, is refused rather than cut."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, not {type(text).__name__}")
    raw = text.encode()
    if len(raw) >= len(array) or 0 in raw:
        raise EINVAL(f"{name} {text!r} must have less than {len(array)} bytes, and no NUL")
    ffi.buffer(array)[:] = raw.ljust(len(array), b"\0")


def put_numbers(out: Any, given: object, *names: str) -> None:
    """Fills the members of a struct that are called so. One that does not fit is named."""
    for name in names:
        value = getattr(given, name)
        try:
            setattr(out, name, value)
        except (TypeError, OverflowError) as error:
            kind = ffi.typeof(out)
            member = dict((kind.item if kind.kind == "pointer" else kind).fields)[name].type
            raise misfit(error, 8 * ffi.sizeof(member), **{name: value}) from None


def _tensor_of(t: Any) -> Tensor:
    s = t.stride
    return Tensor(text_of(t.name), t.layer, t.offset, Strides(s.block, s.plane, s.head, s.token, s.channel), t.region,
                  t.group, t.split, t.planes, t.head_size, t.elem_bytes)


def _put_tensor(out: Any, t: Tensor) -> None:
    put_text(out.name, "a tensor's name", t.name)
    put_numbers(out, t, "layer", "region", "offset", "group", "split", "planes", "head_size", "elem_bytes")
    put_numbers(out.stride, t.stride, "block", "plane", "head", "token", "channel")


def to_c(g: Geometry) -> tuple[Any, Any]:
    """A baton_geometry_t, and its tensors, which must live as long."""
    tensors = ffi.new("baton_tensor_t[]", max(len(g.tensors), 1))
    for i, tensor in enumerate(g.tensors):
        _put_tensor(tensors[i], tensor)
    out = ffi.new("baton_geometry_t *")
    out.size = ffi.sizeof("baton_geometry_t")
    put_text(out.model, "model", g.model)
    put_text(out.dtype, "dtype", g.dtype)
    put_numbers(out, g, "elem_bytes", "planes", "head_size", "layers_total", "layer_first", "layer_count", "bytes")
    out.num_groups, out.num_splits, out.num_tensors = len(g.groups), len(g.splits), len(g.tensors)
    for i, group in enumerate(g.groups):
        put_numbers(out.groups[i], group, "kind", "block_tokens", "num_blocks", "window_tokens", "blocks_per_id")
    for i, split in enumerate(g.splits):
        put_numbers(out.splits[i], split, "heads_total", "head_first", "head_count")
    out.tensors = tensors
    return out, tensors

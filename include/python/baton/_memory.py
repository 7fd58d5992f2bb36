# SPDX-License-Identifier: BSD-3-Clause
"""Memory of Baton's that Python sees, and how long it must stay.

CPython counts the references to an object. That count is exact, whoever holds them: an array, a slice of it, a tensor
made of it, an argument of a call that another thread is inside. So both questions that a close must ask (is a view
alive? is a thread inside a call?) are one question: does anything but the asker refer to this object?
"""
from __future__ import annotations

import sys
from typing import Any, Sequence


def _references(box: Sequence[object]) -> int:
    return sys.getrefcount(box[0])


_ALONE = _references([object()])


def others(box: Sequence[object]) -> int:
    """How many references there are to the one element of the list, beside the list's."""
    return _references(box) - _ALONE


def is_alone(box: Sequence[object]) -> bool:
    """Whether nothing but the list refers to its one element."""
    return others(box) == 0


class Root:
    """What every view of a cache refers to. numpy makes an array of it, whose base it is."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__: dict[str, Any] = {
            "version": 3, "typestr": "|u1", "shape": (size,), "data": (address, False)}

# SPDX-License-Identifier: BSD-3-Clause
"""What the enumerations and the exceptions that are made from baton.h have in common, and which numbers fit."""
from __future__ import annotations

import enum
import operator


class Number(enum.IntEnum):
    """A number of baton.h. One that only a newer library knows gets the name UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> Number | None:
        if not isinstance(value, int):
            return None
        unknown = int.__new__(cls, value)
        unknown._name_ = "UNKNOWN"
        unknown._value_ = value
        return unknown


class Error(Exception):
    """An error of Baton. There is a subclass for each BATON_E..., of the same name."""

    errno = 0


def misfit(error: Exception, bits: int = 32, /, **given: object) -> Exception:
    """After a number was refused: the exception that names the first of these which is none of so many bits. `error`
    if they all are."""
    for name, value in given.items():
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            return TypeError(f"{name} must be a whole number, not {value!r}")
        if not 0 <= number < 1 << bits:
            return OverflowError(f"{name} must be 0 to 2^{bits} - 1, not {number}")
    return error

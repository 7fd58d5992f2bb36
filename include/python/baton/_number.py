# SPDX-License-Identifier: BSD-3-Clause
"""What the enumerations and the exceptions that are made from baton.h have in common."""
from __future__ import annotations

import enum


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

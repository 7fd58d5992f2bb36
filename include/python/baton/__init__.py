# SPDX-License-Identifier: BSD-3-Clause
"""Baton moves KV-cache blocks between the prefill and decode ranks of LLM engines, over MPI.

The functions of baton.h as a class, Context; its errors as exceptions, its enumerations as enumerations. README.md
beside this package's sources says how they work together. The library is loaded when it is first needed.
"""
from ._cache import Cache as Cache
from ._context import EVENTS_MAX as EVENTS_MAX
from ._context import Call as Call
from ._context import Communicator as Communicator
from ._context import Context as Context
from ._context import InUse as InUse
from ._context import OpenParams as OpenParams
from ._context import Table as Table
from ._declarations import *
from ._events import Engine as Engine
from ._events import EngineRank as EngineRank
from ._events import Event as Event
from ._geometry import Geometry as Geometry
from ._geometry import Group as Group
from ._geometry import Split as Split
from ._geometry import Strides as Strides
from ._geometry import Tensor as Tensor
from ._library import exit as exit
from ._library import ffi as ffi
from ._library import library as library
from ._number import Error as Error
from ._wrap import Owned as Owned


for _class in [value for value in globals().values() if isinstance(value, type)]:
    _class.__module__ = __name__  # tracebacks then show the names that programs use


def version() -> str:
    """The version of the library that runs."""
    return str(ffi.string(library().baton_version()).decode())

# SPDX-License-Identifier: BSD-3-Clause
"""Finds and loads libbaton, makes exceptions of its errors, and leaves the process where MPI could not be left."""
from __future__ import annotations

import atexit
import os
import pathlib
import sys
import threading
from typing import Any, Callable, NoReturn

import cffi

from . import _declarations as declarations
from ._number import Error

ffi: Any = cffi.FFI()
ffi.cdef(declarations.CDEF)

_folder = pathlib.Path(__file__).resolve().parent
_loading = threading.Lock()
_watched: list[Callable[[], None]] = []
_loaded: Any = None

# Contexts of this process that are open, or whose close has lost a rank: MPI_Finalize would hang. And what must stay in
# memory with each.
open_contexts: dict[int, list[object]] = {}


def soname(version: str) -> str:
    """The name of the libraries that a program which was made for `version` runs with."""
    major, minor, _ = version.split(".")
    return f"libbaton.so.{major}" if major != "0" else f"libbaton.so.0.{minor}"


def candidates() -> list[str]:
    """Where the library is looked for. A name without a folder is the system's loader's to find."""
    chosen = os.environ.get("BATON_LIBRARY")
    if chosen:
        return [chosen]
    name = soname(declarations.VERSION)
    found = [str(_folder / name)]
    beside = _folder / "libbaton.path"  # written by `cmake --install`
    if beside.is_file():
        found.append(os.path.normpath(_folder / beside.read_text(encoding="utf-8").strip()))
    return [*found, name]


def _reason(said: str, candidate: str) -> str:
    """What the system's loader said. cffi puts the name before it, and what ctypes thinks behind it."""
    return said.partition("  Additionally, ")[0].replace(f"cannot load library '{candidate}': ", "").replace(
        f"{candidate}: ", "")


def _open() -> Any:
    tried = []
    for candidate in candidates():
        try:
            # Never unloaded: MPI's libraries leave hooks of malloc behind, and the interpreter frees memory to its end.
            found = ffi.dlopen(candidate, ffi.RTLD_NOW | ffi.RTLD_NODELETE)
        except OSError as error:
            tried.append(f"  {candidate}: {_reason(str(error), candidate)}")
            continue
        try:
            version = ffi.string(found.baton_version()).decode()
        except AttributeError:
            raise ImportError(f"{candidate} is not Baton's library: it has no baton_version") from None
        if soname(version) != soname(declarations.VERSION):
            raise ImportError(f"{candidate} is version {version}, and this package is made for "
                              f"{declarations.VERSION}: install both from one version")
        lacks = [name for name in dir(found) if name.startswith("baton_") and not hasattr(found, name)]
        if lacks:
            raise ImportError(f"{candidate} lacks {', '.join(lacks)}: install it and this package from one version")
        return found
    raise ImportError("Baton's library was not found; set BATON_LIBRARY to its file. Tried:\n" + "\n".join(tried))


def library() -> Any:
    """The functions of baton.h. The library is loaded at the first call. ImportError says what was tried."""
    global _loaded
    if _loaded is None:
        with _loading:
            if _loaded is None:
                _loaded = _open()
    return _loaded


def last_error(rc: int) -> Error:
    """The exception for what a call of this thread has just returned."""
    said = ffi.string(library().baton_errmsg()).decode(errors="replace")
    return error_of(rc, said)


def error_of(rc: int, detail: str) -> Error:
    """The exception for a number of baton.h."""
    kind = declarations.ERRORS.get(rc)
    if kind is None:
        unknown = Error(detail or f"error {rc}, which this package does not know")
        unknown.errno = rc
        return unknown
    return kind(detail or kind.__doc__)


def exit(status: int) -> NoReturn:
    """Leaves the process at once, without MPI_Finalize, which hangs after the loss of a rank. Standard output and
    standard error are flushed; nothing else of Python's exit happens."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # there is none, nobody reads it any more, it is closed
            pass
    if _loaded is not None:
        _loaded.baton_exit(status)
    os._exit(status)


def watch_finalize(on_finalize: Callable[[], None]) -> None:
    """Calls that at the beginning of an MPI_Finalize, where mpi4py is what a program calls MPI by."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    if mpi is not None and not _watched:
        _watched.append(on_finalize)
        # MPI deletes what hangs on COMM_SELF first. When mpi4py finalises MPI after the interpreter, nothing is called.
        key = mpi.Comm.Create_keyval(delete_fn=lambda comm, key, value: on_finalize())
        mpi.COMM_SELF.Set_attr(key, None)


def _leave() -> None:
    """At the interpreter's exit: threads of a context that is open must not run while libraries are unloaded."""
    if open_contexts:
        print(f"baton: {len(open_contexts)} contexts were not closed, or lost a rank: leaving without MPI_Finalize",
              file=sys.stderr)
        exit(1)


def _forget() -> None:
    open_contexts.clear()


atexit.register(_leave)
os.register_at_fork(after_in_child=_forget)

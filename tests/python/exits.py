# SPDX-License-Identifier: BSD-3-Clause
"""How a process ends that did not do what it should: exits.py HOW. tests/CMakeLists.txt says what each prints."""
import gc
import os
import sys
import threading

import baton
from with_world import geometry

how = sys.argv[1]
if how.startswith("finalized"):
    from mpi4py import MPI


def opened():
    context = baton.Context(baton.OpenParams.from_env())
    context.create_cache(geometry())
    context.start()
    return context


def closed():
    with opened() as context:
        context.cache.array(0)[:] = 1


if how == "closed":
    closed()
elif how == "again":
    closed()
    closed()
elif how == "forgotten":
    kept = opened()
elif how == "collected":
    context = opened()
    view = context.cache.array(0)
    del context
    gc.collect()
    view[:] = 3  # its memory is there until the process ends
    print(f"sum {view.sum():.0f} of {3 * view.size}")
elif how == "views":
    with opened() as context:
        view = context.cache.array(0)
elif how == "exception":
    with opened() as context:
        raise KeyError("broken")
elif how == "exception-views":
    with opened() as context:
        view = context.cache.array(0)
        raise KeyError("broken")
elif how == "status":
    with opened() as context:
        sys.exit(7)
elif how == "forked":
    with opened() as context:
        child = os.fork()
        if child == 0:
            kept = context  # until the interpreter ends
            sys.exit(3)
        print("the child left with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
elif how == "exit":
    kept = opened()
    print("printed", end="")  # is flushed
    baton.exit(5)
elif how == "thread":
    context = opened()
    threading.Thread(target=lambda: [context.poll() for _ in iter(int, 1)], daemon=True).start()
elif how == "cycle":
    class Engine:
        def __init__(self):
            self.me, self.context = self, opened()
            self.view = self.context.cache.array(0)

        def __del__(self):
            self.view[:] = 1  # at whatever time the interpreter comes here

    Engine()
elif how == "finalized-views":
    context = opened()
    view = context.cache.array(0)
    MPI.Finalize()
    view[:] = 1  # its memory would be gone
elif how == "finalized-collected":
    context = opened()
    view = context.cache.array(0)
    del context
    gc.collect()
    MPI.Finalize()
    view[:] = 1  # as above
elif how == "finalized":
    context = opened()
    MPI.Finalize()
    for call in (lambda: context.cache.array(0), context.close):
        try:
            call()
        except baton.ESTATE as error:
            print(f"refused: {error}")
else:
    sys.exit(f"exits.py: {how}?")

# SPDX-License-Identifier: BSD-3-Clause
"""Prints which of these modules this interpreter lacks. mpi4py must be of the MPI that TEST_MPI names."""
import importlib.util
import os
import sys

MPI_HERE = os.environ.get("TEST_MPI", "")


def has_mpi4py():
    try:
        import mpi4py

        mpi4py.rc(initialize=False, finalize=False)
        from mpi4py import MPI
    except (ImportError, RuntimeError):  # its MPI's library is not here
        return False
    return " ".join(MPI.Get_library_version().split()).startswith(MPI_HERE)


for name in sys.argv[1:]:
    if name == "mpi4py":
        if not has_mpi4py():
            print(name, "of", MPI_HERE or "any MPI")
    elif importlib.util.find_spec(name) is None:
        print(name)

# SPDX-License-Identifier: BSD-3-Clause
"""pip builds in a temporary folder, and leaves this one as it is; pyproject.toml says all else."""
import atexit
import shutil
import tempfile

from setuptools import setup

folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder, ignore_errors=True)
setup(options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}})

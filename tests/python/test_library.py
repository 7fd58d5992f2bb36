# SPDX-License-Identifier: BSD-3-Clause
"""Where the library is looked for, and what is said where it is not found or does not fit.

    test_library.py C_COMPILER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import baton

COMPILER = sys.argv.pop(1).split()
LIBRARY = pathlib.Path(os.environ["BATON_LIBRARY"]).resolve()
PACKAGE = pathlib.Path(baton.__file__).parent
SONAME = baton._library.soname(baton.VERSION)


def stubs(version, without=""):
    """A library with all functions, of which one works."""
    names = set(re.findall(r"\b(baton_\w+)\(", baton._declarations.CDEF)) - {"baton_version", without}
    return f'const char *baton_version(void) {{ return "{version}"; }}' + "".join(f"void {n}(void) {{}}" for n in names)


class Library(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.package = self.folder / "site" / "baton"
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__"))

    def version(self, **variables):
        """What a copy of the package says that it loads, or the last line of its error."""
        clean = {k: v for k, v in os.environ.items() if k not in ("BATON_LIBRARY", "LD_LIBRARY_PATH")}
        done = subprocess.run([sys.executable, "-c", "import baton; print(baton.version())"], timeout=60, text=True,
                              capture_output=True, env={**clean, "PYTHONPATH": str(self.package.parent), **variables})
        return done.stdout.strip() if done.returncode == 0 else done.stderr

    def other(self, name, code):
        """A library of that code."""
        path = self.folder / name
        subprocess.run([*COMPILER, "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=code, text=True, check=True,
                       timeout=60)
        return str(path)

    def test_the_variable(self):
        self.assertEqual(self.version(BATON_LIBRARY=str(LIBRARY)), baton.version())

    def test_the_variable_is_the_only_place_then(self):
        shutil.copy(LIBRARY, self.package / SONAME)
        said = self.version(BATON_LIBRARY="/nowhere/libbaton.so")
        self.assertIn("ImportError: Baton's library was not found; set BATON_LIBRARY to its file. Tried:\n"
                      "  /nowhere/libbaton.so: ", said)
        self.assertNotIn(str(self.package / SONAME), said)

    def test_a_reason_is_said_once(self):
        said = self.version(BATON_LIBRARY="/nowhere/libbaton.so")
        self.assertEqual(said.count("/nowhere/libbaton.so"), 1, said)
        self.assertEqual(said.count("cannot open shared object file"), 1, said)
        self.assertNotIn("ctypes", said)

    def test_beside_the_package(self):
        shutil.copy(LIBRARY, self.package / SONAME)
        self.assertEqual(self.version(), baton.version())

    def test_where_it_was_installed_to(self):
        (self.folder / "lib").mkdir()
        shutil.copy(LIBRARY, self.folder / "lib" / SONAME)
        (self.package / "libbaton.path").write_text(f"../../lib/{SONAME}\n", encoding="utf-8")
        self.assertEqual(self.version(), baton.version())

    def test_by_the_systems_loader(self):
        (self.folder / "lib").mkdir()
        shutil.copy(LIBRARY, self.folder / "lib" / SONAME)
        self.assertEqual(self.version(LD_LIBRARY_PATH=str(self.folder / "lib")), baton.version())

    def test_nowhere(self):
        (self.package / "libbaton.path").write_text("../../lib/libbaton.so\n", encoding="utf-8")
        said = self.version(LD_LIBRARY_PATH="")
        if "Tried:" not in said:
            self.skipTest("the system has a libbaton of its own")
        for place in (self.package / SONAME, self.folder / "lib" / "libbaton.so", f"  {SONAME}: "):
            self.assertIn(str(place), said)

    def test_another_version(self):
        major, minor, _ = (int(number) for number in baton.VERSION.split("."))
        versions = {f"{major}.{minor}.0": True, f"{major}.{minor}.99": True, f"{major}.{minor + 1}.0": major > 0,
                    f"{major + 1}.{minor}.0": False}
        for version, good in versions.items():
            said = self.version(BATON_LIBRARY=self.other("other.so", stubs(version)))
            if good:
                self.assertEqual(said, version)
            else:
                self.assertIn(f"is version {version}, and this package is made for {baton.VERSION}", said)

    def test_a_library_that_lacks_a_function(self):
        """It is refused before anything is opened that could not be closed."""
        said = self.version(BATON_LIBRARY=self.other("older.so", stubs(baton.VERSION, without="baton_close")))
        self.assertIn("older.so lacks baton_close", said)

    def test_not_batons(self):
        said = self.version(BATON_LIBRARY=self.other("strange.so", "int strange;"))
        self.assertIn("strange.so is not Baton's library: it has no baton_version", said)

    def test_the_package_can_be_imported_without_a_library(self):
        """A router needs enumerations and exceptions only."""
        done = subprocess.run([sys.executable, "-c", "import baton; print(baton.Role.DECODE.name, baton.EGONE.errno)"],
                              timeout=60, text=True, capture_output=True,
                              env={**os.environ, "PYTHONPATH": str(self.package.parent), "BATON_LIBRARY": "/nowhere"})
        self.assertEqual(done.stdout.split(), ["DECODE", "-13"])

    def test_sonames(self):
        soname = baton._library.soname
        self.assertEqual([soname(v) for v in ("0.2.0", "0.10.3", "1.0.0", "1.7.2", "12.0.0")],
                         ["libbaton.so.0.2", "libbaton.so.0.10", "libbaton.so.1", "libbaton.so.1", "libbaton.so.12"])


if __name__ == "__main__":
    unittest.main()

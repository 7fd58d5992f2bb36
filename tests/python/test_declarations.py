# SPDX-License-Identifier: BSD-3-Clause
"""What the package declares is what baton.h says, by a C compiler's word.

    test_declarations.py SOURCE_FOLDER C_COMPILER
"""
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import baton
from baton import _declarations, ffi, library

SOURCE, COMPILER = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)
DECLARE = SOURCE / "include" / "python" / "declare"
HEADER = SOURCE / "include" / "baton.h"

# Functions of baton.h that the package does not call, and why.
NOT_CALLED = {
    "baton_log_set": "the reactor would wait for the interpreter's lock at each line",
    "baton_strerror": "exceptions have the text from the header",
    "baton_driver_set": "the thread that moves blocks would wait for the interpreter's lock at each copy",
    "baton_errname": "exceptions are called by their names",
    "baton_event_name": "enumerations have names",
    "baton_status_name": "enumerations have names",
}


def structs():
    """Each struct that is not opaque, with the names and types of its members."""
    for name in ffi.list_types()[0]:
        kind = ffi.typeof(name)
        if kind.kind == "struct" and kind.fields is not None:
            yield name, kind


class Declarations(unittest.TestCase):
    def test_the_file_is_what_declare_makes(self):
        done = subprocess.run([sys.executable, DECLARE, "--check"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_change_of_the_header_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            (work / "python" / "baton").mkdir(parents=True)
            for name in ("declare", "baton/_declarations.py"):
                (work / "python" / name).write_bytes((SOURCE / "include" / "python" / name).read_bytes())
            text = HEADER.read_text(encoding="utf-8")
            for old, new in (("uint32_t attempt;", "uint64_t attempt;"), ("BATON_KEY_MAX 256", "BATON_KEY_MAX 512"),
                             ('X(EBUSY, -27, "', 'X(EBUSY, -27, "now '), ("BATON_PATH_RMA = 2", "BATON_PATH_RMA = 7"),
                             ("uint64_t again;", "uint64_t again, once_more;"), ('STRING "0.', 'STRING "1.')):
                self.assertIn(old, text)
                (work / "baton.h").write_text(text.replace(old, new), encoding="utf-8")
                done = subprocess.run([sys.executable, work / "python" / "declare", "--check"], capture_output=True,
                                      text=True, timeout=60)
                self.assertEqual(done.returncode, 1, old)
                self.assertIn("run include/python/declare", done.stderr)
            for unknown in ("#if BATON_OTHER\n#endif", "enum baton_new { BATON_NEW_A = 1 };"):
                changed = text.replace("#endif /* BATON_H */", unknown + "\n#endif")
                (work / "baton.h").write_text(changed, encoding="utf-8")
                done = subprocess.run([sys.executable, work / "python" / "declare"], capture_output=True, text=True,
                                      timeout=60)
                self.assertEqual(done.returncode, 1, unknown)

    def test_the_compiler_agrees(self):
        lines, expected = [], []
        for name, kind in structs():
            lines.append(f'printf("%zu\\n", sizeof({name}));')
            expected.append((name, ffi.sizeof(kind)))
            for member, field in kind.fields:
                lines.append(f'printf("%zu %zu\\n", offsetof({name}, {member}), sizeof((({name} *)0)->{member}));')
                expected.append((f"{name}.{member}", f"{field.offset} {ffi.sizeof(field.type)}"))
        self.assertGreater(len(expected), 150)
        for name in ffi.list_types()[0]:
            kind = ffi.typeof(name)
            if kind.kind == "enum":
                for member, value in kind.relements.items():
                    lines.append(f'printf("%d\\n", (int){member});')
                    expected.append((member, value))
        for name in vars(_declarations):
            if re.fullmatch("[A-Z_]+", name) and isinstance(getattr(_declarations, name), int):
                lines.append(f'printf("%d\\n", BATON_{name});')
                expected.append((name, getattr(_declarations, name)))
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "sizes"
            code = "\n".join(["#define BATON_NO_MPI", "#include <baton.h>", "#include <stdio.h>", "int main(void) {",
                              *lines, "}", ""])
            subprocess.run([*COMPILER.split(), "-x", "c", "-", "-I", HEADER.parent, "-o", program], check=True,
                           text=True, input=code, timeout=120)
            said = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
        self.assertEqual([(name, value) for (name, _), value in zip(expected, said)],
                         [(name, str(value)) for name, value in expected])

    def test_each_function_is_there_and_called(self):
        functions = re.findall(r"\b(baton_\w+)\(", _declarations.CDEF)
        package = pathlib.Path(baton.__file__).parent
        files = [file for file in package.glob("*.py") if file.name != "_declarations.py"]
        code = "".join(file.read_text(encoding="utf-8") for file in files)
        self.assertGreaterEqual(len(functions), 30)
        for name in functions:
            with self.subTest(name):
                self.assertIsNotNone(getattr(library(), name))
                self.assertNotEqual(f".{name}" in code, name in NOT_CALLED)

    def test_members_are_members(self):
        """Each member of a struct that Python has as a dataclass is a member there, but for what C needs alone."""
        pairs = {"baton_event_t": baton.Event, "baton_open_params_t": baton.OpenParams, "baton_engine_t": baton.Engine,
                 "baton_geometry_t": baton.Geometry, "baton_tensor_t": baton.Tensor, "baton_group_t": baton.Group,
                 "baton_split_t": baton.Split, "baton_strides_t": baton.Strides, "baton_table_t": baton.Table,
                 "baton_stats_t": baton.Stats, "baton_peer_stats_t": baton.PeerStats, "baton_pending_t": baton.Pending}
        for name, kind in pairs.items():
            given = {m for m, _ in ffi.typeof(name).fields} - {"size", "reserved"}
            counts = {m for m in given if m.startswith("num_") and m[4:] in given | {"attach"}}
            if name == "baton_table_t":
                counts = {"num_blocks"}
            self.assertEqual(given - counts, {field.name for field in dataclasses.fields(kind)}, name)

    def test_arguments_are_members(self):
        """Each member of the structs of the verbs can be given."""
        import inspect

        renamed = {f"num_{name}": name for name in ("tables", "consumers", "tickets", "attach")}
        for struct, call in (("baton_offer_params_t", baton.Context.offer), ("baton_want_params_t", baton.Context.want),
                             ("baton_append_params_t", baton.Context.append)):
            members = {renamed.get(m, m) for m, _ in ffi.typeof(struct).fields} - {"size", "reserved"}
            self.assertLessEqual(members, set(inspect.signature(call).parameters), struct)

    def test_each_error_is_an_exception(self):
        for number, kind in _declarations.ERRORS.items():
            self.assertTrue(issubclass(kind, baton.Error))
            self.assertEqual(kind.errno, number)
            self.assertEqual(ffi.string(library().baton_errname(number)).decode(), f"BATON_{kind.__name__}")
            text = ffi.string(library().baton_strerror(number)).decode()
            self.assertEqual(kind.__doc__, text[0].upper() + text[1:] + ".")
            self.assertIs(getattr(baton, kind.__name__), kind)
        self.assertEqual(len(_declarations.ERRORS), len(ffi.typeof("enum baton_errno").elements) - 1)


if __name__ == "__main__":
    unittest.main()

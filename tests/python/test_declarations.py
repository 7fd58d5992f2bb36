# SPDX-License-Identifier: BSD-3-Clause
"""What the package declares is what baton.h says, by a C compiler's word.

    test_declarations.py SOURCE_FOLDER C_COMPILER
"""
import dataclasses
import inspect
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import baton
import baton.aio
from baton import _declarations, ffi, library

SOURCE, COMPILER = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)
DECLARE = SOURCE / "include" / "python" / "declare"
HEADER = SOURCE / "include" / "baton.h"

# Functions of baton.h that the package does not call, and why.
NOT_CALLED = {
    "baton_log_set": "the reactor would wait for the interpreter's lock at each line",
    "baton_strerror": "exceptions have the text from the header",
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
        self.assertGreaterEqual(len(functions), 29)
        for name in functions:
            with self.subTest(name):
                self.assertIsNotNone(getattr(library(), name))
                self.assertNotEqual(f".{name}" in code, name in NOT_CALLED)

    def test_members_are_members(self):
        """Each member of a struct that Python has as a dataclass is a member there, but for what C needs alone."""
        pairs = {"baton_event_t": baton.Event, "baton_open_params_t": baton.OpenParams, "baton_engine_t": baton.Engine,
                 "baton_engine_rank_t": baton.EngineRank,
                 "baton_geometry_t": baton.Geometry, "baton_tensor_t": baton.Tensor, "baton_group_t": baton.Group,
                 "baton_split_t": baton.Split, "baton_strides_t": baton.Strides, "baton_table_t": baton.Table,
                 "baton_stats_t": baton.Stats, "baton_peer_stats_t": baton.PeerStats, "baton_pending_t": baton.Pending}
        for name, kind in pairs.items():
            given = {m for m, _ in ffi.typeof(name).fields} - {"size", "reserved"}
            counts = {m for m in given if m.startswith("num_") and m[4:] in given | {"attach"}}
            if name == "baton_table_t":
                counts = {"num_blocks"}
            if name == "baton_stats_t":  # what Context.pending and Context.peer_stats return
                counts = {"pending", "max_pending", "num_pending", "peer_stats", "first_peer", "num_peers"}
            self.assertEqual(given - counts, {field.name for field in dataclasses.fields(kind)}, name)

    def test_arguments_are_members(self):
        """Each member of the structs of the verbs can be given."""
        import inspect

        renamed = {f"num_{name}": name for name in ("tables", "consumers", "attach")}
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


class Page(unittest.TestCase):
    """The reference of the page names what there is."""

    PAGE = (SOURCE / "include" / "python" / "README.md").read_text(encoding="utf-8")
    TABLES = PAGE.partition("\n## Reference\n")[2].partition("\n## ")[0]

    def test_calls(self):
        rows = re.findall(r"^\| (`.*?) \|", self.TABLES.partition("| keyword |")[0], re.MULTILINE)
        given = dict(re.findall(r"`(\w+)\(([^)]*)\)`", "".join(rows)))
        methods = {name: method for name, method in vars(baton.Context).items()
                   if inspect.isfunction(method) and not name.startswith("_")}
        methods.pop("fileno")  # event_fd by another name
        self.assertEqual(set(given), set(methods))
        for name, method in methods.items():
            parameters = list(inspect.signature(method).parameters.values())[1:]
            names = [p.name for p in parameters if not p.name.startswith("_")]
            self.assertEqual([n for n in given[name].split(", ") if n not in ("", "*")], names, name)
            if inspect.Parameter.KEYWORD_ONLY in [p.kind for p in parameters if not p.name.startswith("_")]:
                before = given[name].partition("*, ")[0].rstrip(", ").split(", ")
                self.assertEqual(before, [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD], name)

    def test_keywords(self):
        rows = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", self.TABLES.partition("| keyword |")[2], re.MULTILINE)
        said = {(name, verb) for name, verbs in rows for verb in verbs.split(", ")}
        there = {(p.name, verb) for verb in ("offer", "want")
                 for p in inspect.signature(getattr(baton.Context, verb)).parameters.values() if p.kind == p.KEYWORD_ONLY}
        self.assertEqual(said, there)

    def test_objects(self):
        given = {name: re.findall(r"`(\w+)(?:\(\))?`", what)
                 for name, what in re.findall(r"^\| an? `([\w.]+)` \| (.*) \|$", self.TABLES, re.MULTILINE)}
        for kind in (baton.Event, baton.Engine, baton.EngineRank):
            public = [f.name for f in dataclasses.fields(kind)]
            public += [name for name in vars(kind) if not name.startswith("_") and name not in public]
            self.assertEqual(sorted(given.pop(kind.__name__)), sorted(public))
        transfer = baton.aio.Transfer
        public = {name for name in vars(transfer) if not name.startswith("_")}
        self.assertEqual(set(given.pop("Transfer")), public | {"id"})
        self.assertEqual(given, {})


if __name__ == "__main__":
    unittest.main()

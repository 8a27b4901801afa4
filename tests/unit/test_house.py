"""Rules for the whole repository that no linter checks. The rules of imports are contracts in pyproject.toml."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE = re.compile(r"\w+(?:\.\w+)+")
ROOMS = ("fencepost", "harness", "workloads", "nemeses", "checkers", "reports")
QUOTED_MODULE = re.compile(rf"""["'](?:{"|".join(ROOMS)})\.[\w.]+["']""")
"""Occurs in each file of which `modules_named_in_strings` yields a module. To walk all files takes seconds."""


def files(*rooms: str) -> list[Path]:
    return sorted(path for room in rooms for path in (ROOT / room).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.processes
@pytest.mark.parametrize("module", ["fencepost", "fencepost.pytest_plugin"])
def test_importing_fencepost_loads_no_other_room(module: str):
    code = f"import sys, {module}; print([m for m in sys.modules if m.split('.')[0] in {ROOMS[1:]!r}])"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


@pytest.mark.processes
@pytest.mark.parametrize("module", ["fencepost", "fencepost.pytest_plugin"])
def test_importing_fencepost_needs_no_package_but_pytest(module: str):
    """A team may install only the plugin, and use the command of another environment that has our dependencies."""
    own = set(sys.stdlib_module_names) | {"fencepost", "pytest", "_pytest"}
    code = f"""
import sys, pytest
before = set(sys.modules)
import {module}
print(sorted({{name.partition(".")[0] for name in set(sys.modules) - before}} - {own!r}))
"""
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_no_file_has_the_name_of_an_export_of_its_package():
    """After an import of a module `fencepost/run.py`, `fencepost.run` would be that module and not the function."""
    for init in ROOT.glob("*/__init__.py"):
        if init.parent.name not in ROOMS:
            continue
        exported = {
            name.asname or name.name
            for node in ast.parse(init.read_text()).body
            if isinstance(node, ast.ImportFrom) and node.module and node.module.count(".")
            for name in node.names
        }
        inside = {file.stem for file in init.parent.iterdir() if file.suffix == ".py" or file.is_dir()}
        assert not exported & inside, f"{init.parent.name} has files with the names of its exports"


def modules_named_in_strings(path: Path) -> Iterator[str]:
    """Yield the modules that strings name. import-linter does not see them, because no import names them."""
    code = path.read_text()
    if not QUOTED_MODULE.search(code):
        return
    tree = ast.parse(code)
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else None
        is_dotted = isinstance(text, str) and MODULE.fullmatch(text)
        if is_dotted and (ROOT / f"{text.replace('.', '/')}.py").exists():
            yield text


def other_rooms_in_strings(path: Path, room: str) -> list[str]:
    return [name for name in modules_named_in_strings(path) if name.split(".")[0] not in (room, "harness")]


def test_no_room_names_a_module_of_another_room_in_a_string():
    by_file = {
        name_of(path): other_rooms_in_strings(path, room) for room in ROOMS[1:] for path in files(room)
    }
    assert not {name: modules for name, modules in by_file.items() if modules}


def test_a_module_named_in_a_string_is_found(tmp_path: Path):
    code = tmp_path / "code.py"
    code.write_text(
        '"""fencepost.cli"""\nPROCESS = "fencepost.runs.process"\nOWN = "harness.common.errors"\n'
    )
    assert other_rooms_in_strings(code, "harness") == ["fencepost.runs.process"]


NAMED_CODE = re.compile(rf"`+((?:{'|'.join(ROOMS)})(?:\.\w+)+)`")
NAMED_FILE = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.py)`")


def missing_names(text: str, file_names: frozenset[str]) -> Iterator[str]:
    """Yield the modules, names in modules and files that a text has in backticks and that do not exist. The file
    name `NAME.py` is a placeholder.
    """
    for name in NAMED_CODE.findall(text):
        path, *rest = name.split(".")
        while rest and ((ROOT / path / rest[0]).is_dir() or (ROOT / path / f"{rest[0]}.py").is_file()):
            path = f"{path}/{rest.pop(0)}"
        module = ROOT / f"{path}.py" if (ROOT / f"{path}.py").is_file() else ROOT / path / "__init__.py"
        code = module.read_text(encoding="utf-8") if module.is_file() else ""
        if not all(
            re.search(rf"(?:def|class) {own}\b|\b{own}\b\s*[:=]|import .*\b{own}\b", code) for own in rest[:2]
        ):
            yield name
    for name in NAMED_FILE.findall(text):
        if name.rsplit("/", 1)[-1] not in {*file_names, "NAME.py"}:
            yield name


@pytest.mark.processes
def test_each_module_and_file_that_texts_name_exists():
    pages = [path for path in tracked() if path.suffix == ".md" and path.name != "CHANGELOG.md"]
    names = frozenset(path.name for path in tracked())
    found = {
        name_of(path): missing
        for path in [*files(*ROOMS), *pages]
        if (missing := list(missing_names(path.read_text(encoding="utf-8"), names)))
    }
    assert not found


def test_a_module_that_does_not_exist_is_found():
    text = (
        "`checkers.findings.form.INFIX`, `checkers.findings.UNDECIDED_INFIX`, `stalls.py`, `reports.charts`, "
    )
    text += "`cli.py`"
    names = frozenset({"cli.py"})
    assert list(missing_names(text, names)) == ["checkers.findings.form.INFIX", "reports.charts", "stalls.py"]


def test_no_class_name_is_defined_twice():
    paths_by_name: dict[str, list[str]] = {}
    for path in files(*ROOMS):
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE):
            paths_by_name.setdefault(name, []).append(name_of(path))
    twice = {name: paths for name, paths in paths_by_name.items() if len(paths) > 1}
    assert set(twice) <= {"Pipeline", "Stage"}, twice  # also classes of the public API, `fencepost.Pipeline`


def test_a_light_test_without_the_marker_cannot_start_a_process():
    with pytest.raises(AssertionError, match=r"starts a process: mark it with @pytest\.mark\.processes"):
        subprocess.run(["true"], check=True)


def test_no_two_test_files_have_the_same_name():
    """pytest imports a test file by its name, without its folder."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)


USES_FILES = re.compile(
    r"\b(read_text|write_text|open|fdopen|TextIOWrapper|\w*TemporaryFile|text|universal_newlines)\b"
)
"""Occurs in each file that `is_text_without_encoding` can find. To walk all files takes seconds."""
FILE_MODE = re.compile(r"[rwxabt+]+")
TEMPORARY = ("NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile")


def is_text_without_encoding(call: ast.Call) -> bool:
    """Return whether a call reads or writes text in the encoding of the user's locale, which may be ASCII."""
    function, keywords = call.func, {keyword.arg for keyword in call.keywords}
    if "encoding" in keywords or None in keywords:
        return False
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("read_text", "write_text"):
        return len(call.args) == (name == "write_text")
    if name in ("run", "Popen", "check_output", "check_call", "call"):
        return bool({"text", "universal_newlines"} & keywords)
    if name not in ("open", "fdopen", "TextIOWrapper", *TEMPORARY):
        return False
    owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
    if owner in ("os", "gzip", "tarfile"):
        return False
    values = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    texts = [
        value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)
    ]
    modes = [text for text in texts if FILE_MODE.fullmatch(text)]
    of_path = (
        name == "open" and not call.args and re.search(r"(path|file|log|part|Path\(.*\))$", owner) is not None
    )
    return not any("b" in mode for mode in modes) and bool(modes or of_path or "errors" in keywords)


def texts_without_encoding(path: Path) -> Iterator[str]:
    code = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(code)) if USES_FILES.search(code) else ():
        if isinstance(node, ast.Call) and is_text_without_encoding(node):
            yield f"{name_of(path) if path.is_relative_to(ROOT) else path.name}:{node.lineno}"


def test_every_text_is_read_and_written_with_an_encoding():
    """The rule PLW1514 of ruff is not stable, and it misses paths that are attributes or results of `/`."""
    assert not [
        line for path in files(*ROOMS, "benchmarks", "tools") for line in texts_without_encoding(path)
    ]


def test_a_text_without_an_encoding_is_found(tmp_path: Path):
    code = tmp_path / "code.py"
    code.write_text(
        "(folder / name).read_text()\npath.write_text(text)\npath.open()\nopen(name, 'w')\nself.path.open(errors='x')\n"
        "subprocess.run(words, text=True)\ntempfile.TemporaryFile('w+')\n"
        "path.read_text(encoding='utf-8')\npath.open('rb')\nproducer.open()\nos.open(path, 0)\ngzip.open(path)\n"
        "subprocess.run(words)\ntempfile.TemporaryFile()\npath.write_text(text, 'utf-8')\n"
    )
    assert list(texts_without_encoding(code)) == [f"code.py:{line}" for line in range(1, 8)]


PRIVATE_TEXT = re.compile(
    r"/work/|/home/\w|/root/|/Users/|shared/[A-Z]|pypi\.org|files\.pythonhosted|registry\.npmjs|proxy\.golang\.org"
    r"|\bTODO\b|\bFIXME\b|issue \d"
)


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.processes
def test_no_file_names_a_private_path_or_an_open_task():
    found = [
        f"{name_of(path)}: {match.group()}"
        for path in {*tracked(), *files(*ROOMS, "tests")} - {Path(__file__).resolve()}
        if path.suffix in {".py", ".md", ".toml", ".lock", ".html", ".css", ".js", ".java", ".txt", ""}
        for match in PRIVATE_TEXT.finditer(path.read_text(errors="replace"))
    ]
    assert not found


def test_one_function_makes_tables_of_spark_from_rows():
    """Spark stops reading a PyArrow table after two empty chunks in a row, so `local_table` gives it a single one."""
    makers = [name_of(path) for path in files("checkers") if ".createDataFrame(" in path.read_text()]
    assert makers == ["checkers/spark/frames.py"]

"""What holds for the whole repository and that no linter knows. Import rules are contracts in pyproject.toml."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
MODULE = re.compile(r"\w+(?:\.\w+)+")
ROOMS = ("fencepost", "harness", "workloads", "nemeses", "checkers", "reports")


def files(*rooms: str) -> list[Path]:
    return sorted(path for room in rooms for path in (HOUSE / room).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(HOUSE))


@pytest.mark.parametrize("module", ["fencepost", "fencepost.pytest_plugin"])
def test_importing_fencepost_loads_no_other_room(module: str):
    code = f"import sys, {module}; print([m for m in sys.modules if m.split('.')[0] in {ROOMS[1:]!r}])"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["fencepost", "fencepost.pytest_plugin"])
def test_importing_fencepost_needs_no_package_but_pytest(module: str):
    """A team's own environment has none of our dependencies, where it calls the command of another."""
    own = set(sys.stdlib_module_names) | {"fencepost", "pytest", "_pytest"}
    code = f"""
import sys, pytest
before = set(sys.modules)
import {module}
print(sorted({{name.partition(".")[0] for name in set(sys.modules) - before}} - {own!r}))
"""
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_no_file_takes_the_name_of_what_its_room_exports():
    """Importing `fencepost/run.py` would put that module where a user calls `fencepost.run()`."""
    for init in HOUSE.glob("*/__init__.py"):
        if init.parent.name not in ROOMS:
            continue
        exported = {
            name.asname or name.name
            for node in ast.parse(init.read_text()).body
            if isinstance(node, ast.ImportFrom) and node.module and node.module.count(".")
            for name in node.names
        }
        inside = {file.stem for file in init.parent.iterdir() if file.suffix == ".py" or file.is_dir()}
        assert not exported & inside, f"{init.parent.name} has files named as what it exports"


def modules_in_strings(path: Path) -> Iterator[str]:
    """Modules that a string names. No import shows these, so import-linter does not see them."""
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else None
        is_dotted = isinstance(text, str) and MODULE.fullmatch(text)
        if is_dotted and (HOUSE / f"{text.replace('.', '/')}.py").exists():
            yield text


def upward_in_strings(path: Path, room: str) -> list[str]:
    return [name for name in modules_in_strings(path) if name.split(".")[0] not in (room, "harness")]


def test_no_room_names_a_module_of_another_room_in_a_string():
    upward = {name_of(path): upward_in_strings(path, room) for room in ROOMS[1:] for path in files(room)}
    assert not {name: found for name, found in upward.items() if found}


def test_a_module_named_in_a_string_is_seen(tmp_path: Path):
    code = tmp_path / "code.py"
    code.write_text(
        '"""fencepost.cli"""\nPROCESS = "fencepost.runs.process"\nOWN = "harness.common.errors"\n'
    )
    assert upward_in_strings(code, "harness") == ["fencepost.runs.process"]


def test_no_class_name_is_defined_twice():
    where: dict[str, list[str]] = {}
    for path in files(*ROOMS):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(name_of(path))
    twice = {name: paths for name, paths in where.items() if len(paths) > 1}
    assert set(twice) <= {"Pipeline", "Stage"}, twice  # a user's own words, in `fencepost.Pipeline`


def test_no_two_files_of_tests_have_one_name():
    """pytest imports each by its name alone."""
    names = [path.name for path in (HOUSE / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)


def broad_excepts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names = {one.id for one in caught if isinstance(one, ast.Name)}
            goes_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            if not goes_on and (node.type is None or names & {"Exception", "BaseException"}):
                yield f"{name_of(path)}:{node.lineno}"


def test_excepts_are_broad_where_code_of_others_runs_alone():
    broad = [place for path in files(*ROOMS) for place in broad_excepts(path)]
    assert [place.partition(":")[0] for place in broad] == [
        "harness/roles/transactions.py",  # a client library
        "workloads/custom/functions.py",  # a user's functions
    ]


def test_only_waiting_sleeps():
    sleepers = {
        name_of(path)
        for path in files(*ROOMS, "tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr == "sleep")
            or (isinstance(node.func, ast.Name) and node.func.id == "sleep")
        )
    }
    assert sleepers <= {"harness/common/waiting.py"}


WORKPLACE = re.compile(
    r"/work/|/home/\w|/root/|/Users/|shared/[A-Z]|pypi\.org|files\.pythonhosted|registry\.npmjs|proxy\.golang\.org"
    r"|\bTODO\b|\bFIXME\b|issue \d"
)


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=HOUSE, capture_output=True, text=True, check=False)
    return [HOUSE / name for name in listed.stdout.split("\0") if name and (HOUSE / name).is_file()]


def test_nothing_names_the_place_where_it_was_made():
    found = [
        f"{name_of(path)}: {match.group()}"
        for path in {*tracked(), *files(*ROOMS, "tests")} - {Path(__file__).resolve()}
        if path.suffix in {".py", ".md", ".toml", ".lock", ".html", ".css", ".js", ".java", ".txt", ""}
        for match in WORKPLACE.finditer(path.read_text(errors="replace"))
    ]
    assert not found


def test_every_room_says_what_it_is():
    silent = [
        name_of(path)
        for path in files(*ROOMS)
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent

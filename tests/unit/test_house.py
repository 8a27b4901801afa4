"""The house: imports point one way, files stay small, and nothing names the place where it was made."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
ROOMS = ("fencepost", "harness", "workloads", "nemeses", "checkers", "reports")
WORDS = {
    "harness.errors",
    "harness.history",
    "harness.verdict",
    "harness.facts",
    "harness.names",
    "harness.waiting",
}
EVIDENCE = {*WORDS, "harness.record.schema", "harness.history_files"}

MAY_IMPORT = {
    "harness": {"harness"},
    "checkers": {"checkers", *EVIDENCE},
    "reports": {"reports", *EVIDENCE},
    "nemeses": {"nemeses", "harness"},
    "workloads": {"workloads", "harness"},
    "fencepost": set(ROOMS),
}
"""The arrows: what a room may import of the house, by the beginning of the module's name."""

MAY_NOT = {
    "checkers": {"confluent_kafka", "kafka"},
    "reports": {"confluent_kafka", "kafka", "pyspark"},
    "nemeses": {"harness.clients", "confluent_kafka", "pyspark"},
    "workloads": {"harness.cluster", "harness.network", "pyspark"},
    "harness": {"pyspark"},
}
"""What else would turn an arrow round."""

PUBLIC = ("fencepost/__init__.py", "fencepost/api.py", "fencepost/pytest_plugin.py")
"""What a user's process loads: it has no other room in it."""


def files(*rooms: str) -> list[Path]:
    return sorted(path for room in rooms for path in (HOUSE / room).rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(HOUSE))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: imports say the room's name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def under(name: str, beginnings: set[str]) -> bool:
    return any(name == begin or name.startswith(f"{begin}.") for begin in beginnings)


def wrong_arrows(room: str, names: Iterator[str]) -> list[str]:
    return [
        name
        for name in names
        if (name.split(".")[0] in ROOMS and not under(name, MAY_IMPORT[room]))
        or under(name, MAY_NOT.get(room, set()))
    ]


@pytest.mark.parametrize("path", files(*ROOMS), ids=name_of)
def test_imports_point_one_way(path: Path):
    assert not wrong_arrows(path.relative_to(HOUSE).parts[0], imports(path))


def test_a_wrong_arrow_is_seen():
    assert wrong_arrows(
        "checkers", iter(["harness.cluster.Cluster", "harness.verdict.Found", "pyspark.sql"])
    ) == ["harness.cluster.Cluster"]
    assert wrong_arrows("harness", iter(["workloads.shop", "harness.names"])) == ["workloads.shop"]
    assert wrong_arrows("nemeses", iter(["harness.clients.feeder", "harness.cluster"])) == [
        "harness.clients.feeder"
    ]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_files_import_no_other_room(name: str):
    rooms = {imported.split(".")[0] for imported in imports(HOUSE / name)} & set(ROOMS)
    assert rooms <= {"fencepost"}


@pytest.mark.parametrize("module", ["fencepost", "fencepost.pytest_plugin"])
def test_importing_fencepost_loads_no_other_room(module: str):
    code = f"import sys, {module}; print([m for m in sys.modules if m.split('.')[0] in {ROOMS[1:]!r}])"
    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize("path", files(*ROOMS), ids=name_of)
def test_no_file_is_past_its_size(path: Path):
    assert len(path.read_text().splitlines()) <= 300


def broad_excepts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            names = {one.id for one in caught if isinstance(one, ast.Name)}
            goes_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            if not goes_on and (node.type is None or names & {"Exception", "BaseException"}):
                yield f"{name_of(path)}:{node.lineno}"


def test_one_except_is_broad():
    broad = [place for path in files(*ROOMS) for place in broad_excepts(path)]
    assert len(broad) <= 1, broad


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
    assert sleepers <= {"harness/waiting.py"}


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


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_it_is(room: str):
    assert ast.get_docstring(ast.parse((HOUSE / room / "__init__.py").read_text()))

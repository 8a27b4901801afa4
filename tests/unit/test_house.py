"""The house: imports point one way, files stay small, and nothing names the place where it was made."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
ROOMS = ("fencepost", "harness", "workloads", "pipelines", "nemeses", "checkers", "reports")
WORDS = {
    "harness.errors",
    "harness.history",
    "harness.verdict",
    "harness.moves",
    "harness.promises",
    "harness.reasons",
    "harness.suite",
    "harness.facts",
    "harness.names",
    "harness.waiting",
    "harness.telling",
}
EVIDENCE = {*WORDS, "harness.record.schema", "harness.record.parquet_reader", "harness.history_files"}

MAY_IMPORT = {
    "harness": {"harness"},
    "checkers": {"checkers", *EVIDENCE},
    "reports": {"reports", *EVIDENCE},
    "nemeses": {"nemeses", "harness"},
    "workloads": {"workloads", "harness"},
    "pipelines": {"pipelines", "harness"},
    "fencepost": set(ROOMS),
}
"""The arrows: what a room may import of the house, by the beginning of the module's name."""

MAY_NOT = {
    "checkers": {"confluent_kafka", "kafka"},
    "reports": {"confluent_kafka", "kafka", "pyspark"},
    "nemeses": {"harness.clients", "confluent_kafka", "pyspark"},
    "workloads": {"harness.cluster", "harness.network", "harness.runner", "confluent_kafka", "pyspark"},
    "pipelines": {"harness.cluster", "harness.network", "harness.runner", "confluent_kafka", "pyspark"},
    "harness": {"pyspark"},
}
"""What else would turn an arrow round."""

PIPELINES = " ".join(
    path.stem for path in (HOUSE / "workloads").glob("*.py") if path.stem not in ("__init__", "registry")
)
FLOORS = {
    "harness": (
        "names secrets errors extras waiting history moves telling toml_tables",
        "reasons verdict",
        "facts goals suite",
        "expectation pipeline promises history_files",
        "record processes containers environment",
        "settings clients witness",
        "network stores",
        "cluster",
        "runner",
        "testing",
    ),
    "checkers": (
        "spark findings needs",
        "external stored",
        "anomalies",
        "checker",
        "registry",
        "judging catalogue pages",
    ),
    "reports": (
        "charts told under_way",
        "summary",
        "console junit suites trace",
        "html",
    ),
    "workloads": ("model", "loop", PIPELINES, "defects registry"),
    "pipelines": (
        "description",
        "functions table",
        "correlation feeds placeholders tagged",
        "command expectation read",
        "pipeline",
        "trial",
        "examine templates",
    ),
    "fencepost": (
        "aims api_types evidence live preparing process shapes spark stores your_pipeline",
        "api command_line",
        "programs",
        "progress registry verdict_rules",
        "histories",
        "judging planning",
        "benchmark sharing",
        "checking chunks cleaning pytest_plugin running sweeping",
        "suites",
        "commands",
        "cli",
        "__main__",
    ),
}
"""The rooms within a room, lowest first: a file may import from its own room and from those on floors below."""

PUBLIC = (
    "fencepost/__init__.py",
    "fencepost/api.py",
    "fencepost/pytest_plugin.py",
    "fencepost/your_pipeline.py",
)
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


def test_imports_point_one_way():
    wrong = {
        name_of(path): found
        for path in files(*ROOMS)
        if (found := wrong_arrows(path.relative_to(HOUSE).parts[0], imports(path)))
    }
    assert not wrong


def floor_of(room: str, name: str) -> int | None:
    """On which floor a module of a room stands, by the word after the room's name."""
    within = name.split(".")[1] if name.startswith(f"{room}.") else ""
    floors = [floor for floor, names in enumerate(FLOORS[room]) if within in names.split()]
    return floors[0] if floors else None


def upward(room: str, module: str, names: Iterator[str]) -> list[str]:
    """What a module imports from a floor above its own, or from another room on it that imports it too."""
    own = floor_of(room, module)
    assert own is not None, f"{module} stands on no floor"
    return [name for name in names if (floor_of(room, name) or 0) > own]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(HOUSE).with_suffix("").parts)


@pytest.mark.parametrize("room", FLOORS)
def test_no_file_imports_from_a_floor_above_its_own(room: str):
    paths = [path for path in files(room) if path != HOUSE / room / "__init__.py"]
    wrong = {name_of(p): found for p in paths if (found := upward(room, module_of(p), imports(p)))}
    assert not wrong


@pytest.mark.parametrize("room", FLOORS)
def test_no_two_rooms_on_a_floor_import_each_other(room: str):
    arrows = {
        (module_of(path).split(".")[1], name.split(".")[1])
        for path in files(room)
        for name in imports(path)
        if name.startswith(f"{room}.") and path != HOUSE / room / "__init__.py"
    }
    assert not {(one, other) for one, other in arrows if one != other and (other, one) in arrows}


def test_an_import_upwards_is_seen():
    assert upward("harness", "harness.clients.feeder", iter(["harness.runner.run", "harness.history"])) == [
        "harness.runner.run"
    ]


NAMED = re.compile(rf"(?:{'|'.join(ROOMS)})(?:\.\w+)+")


def named_in_strings(path: Path) -> Iterator[str]:
    """Modules that a string names: an arrow that no import shows. Docstrings may name what they like."""
    tree = ast.parse(path.read_text())
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in documentation else None
        if isinstance(text, str) and NAMED.fullmatch(text):
            yield text


def test_no_module_is_named_in_a_string_from_below():
    wrong = {}
    for path in files(*ROOMS):
        room = path.relative_to(HOUSE).parts[0]
        names = [
            name
            for name in named_in_strings(path)
            if Path(HOUSE, *name.split(".")).with_suffix(".py").exists()
        ]
        up = wrong_arrows(room, iter(names)) if room != "fencepost" else []
        if room in FLOORS and path != HOUSE / room / "__init__.py":
            up += upward(room, module_of(path), iter(names))
        if up:
            wrong[name_of(path)] = up
    assert not wrong


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
        "harness/clients/transactions.py",  # a client library
        "pipelines/functions.py",  # a user's functions
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


def test_every_room_says_what_it_is():
    silent = [
        name_of(path)
        for path in files(*ROOMS)
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent

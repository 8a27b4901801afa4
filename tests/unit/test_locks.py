"""The locks: what users install has no tool of developers, and both agree with pyproject.toml."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from harness.common.documents import parse_toml

ROOT = Path(__file__).parents[2]
PROJECT = parse_toml((ROOT / "pyproject.toml").read_text())
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")


def locked(name: str) -> dict[str, str]:
    """Return the versions in a lock, after checking that each has a checksum."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / name).read_text(), flags=re.MULTILINE)
    entries = re.findall(r"^([\w.-]+)==([^\s;]+)((?:.*\\\n)+\s+--hash=sha256:\w{64})?", text, re.MULTILINE)
    assert all(hashes for _, _, hashes in entries), name
    return {package: version for package, version, _ in entries}


def pinned(requirements: list[str]) -> dict[str, str]:
    parts = (line.partition(";")[0].strip().split("==") for line in requirements)
    return {name: version for name, version in parts}  # noqa: C416 - dict() has no such overload


OPTIONAL = PROJECT["project"]["optional-dependencies"]
EXTRAS = [line for extra in ("docker", "java", "postgres") for line in OPTIONAL[extra]]
NEEDED = {
    package.name: package for package in map(Requirement, [*PROJECT["project"]["dependencies"], *EXTRAS])
}
LOWEST = pinned((ROOT / "requirements-lowest.txt").read_text().partition("\n")[2].splitlines())


def test_the_lock_of_users_has_every_package_that_the_product_needs() -> None:
    versions = locked("requirements.lock")
    assert [name for name, package in NEEDED.items() if versions.get(name) not in package.specifier] == []


def test_every_range_begins_at_its_lowest_tested_version() -> None:
    lowest = {
        name: next(part.version for part in package.specifier if part.operator == ">=")
        for name, package in NEEDED.items()
    }
    assert lowest == LOWEST


def test_no_range_is_a_single_version() -> None:
    assert [
        name
        for name, package in NEEDED.items()
        if {part.operator for part in package.specifier} - {">=", "<"}
    ] == []


def test_the_lock_of_users_has_no_tool_of_developers() -> None:
    tools = pinned(OPTIONAL["dev"])
    assert not tools.keys() & locked("requirements.lock").keys()
    both = {**tools, **locked("requirements.lock")}
    assert both.items() <= locked("requirements-dev.lock").items()


def test_the_build_tools_are_locked() -> None:
    assert pinned(PROJECT["build-system"]["requires"]) == locked("requirements-build.lock")


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_machine(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://|^-|file:/|/tmp/|/home/", text, re.MULTILINE)


def test_every_package_of_the_product_has_a_row_with_its_licence() -> None:
    words = (ROOT / "docs" / "dependencies.md").read_text()
    rows = {row.split("|")[1].strip(): row.count("|") for row in words.splitlines() if row.startswith("| ")}
    assert [name for name in NEEDED if rows.get(name) != 4] == []


def test_ci_runs_every_fault_and_requires_what_tests_need() -> None:
    from fencepost import registry

    script = (ROOT / ".ci" / "run").read_text()
    (suite,) = re.findall(r"fencepost suite (\S+)", script)
    cells = parse_toml((ROOT / suite).read_text())["include"]
    lists = re.findall(r"--nemesis (\S+)", script) + [names for cell in cells for names in cell["nemesis"]]
    drawn = {name for name, nemesis in registry.nemeses().items() if nemesis.by_default}
    in_containers = {"drop-packets", "disconnect-broker"}
    assert {name for names in lists for name in names.split(",")} == drawn | in_containers
    assert "export FENCEPOST_REQUIRE=browser,jdk,cc\n" in script


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_by_its_commit_and_names_its_version(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text())
    assert (
        used
        and [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)]
        == []
    )


def test_ci_checks_the_workflows() -> None:
    assert "make actionlint\n" in (ROOT / ".ci" / "run").read_text()
    sums = (ROOT / "tools" / "actionlint-1.7.12.lock").read_text()
    assert re.search(r"^github.com/rhysd/actionlint v1\.7\.12 h1:\S+$", sums, re.MULTILINE)

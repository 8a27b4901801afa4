"""The table of cluster kinds: the options that each accepts, and that no other code compares the name of a kind."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster import Ability
from harness.cluster.kinds import registry
from harness.cluster.kinds.registry import (
    CLUSTERS,
    abilities_of,
    check_brokers_option,
    clusters_able_to,
    require_options,
)
from harness.common.errors import UsageError
from harness.network import Cut
from harness.settings.options import Options

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("fencepost", "harness", "workloads", "nemeses", "checkers", "reports")
EXTERNAL = Options(cluster="external", bootstrap="a:1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(cluster="external"), "--cluster external needs --set bootstrap=HOST:PORT,..."),
        (
            replace(EXTERNAL, settings={"x": "1"}),
            "an external cluster has its own broker settings: leave out --set broker....",
        ),
        (
            replace(EXTERNAL, keep="logs"),
            "an external cluster keeps its own segment files: leave out --keep logs",
        ),
        (
            replace(EXTERNAL, permits=("workers", "brokers")),
            'permits cannot be "brokers" for an external cluster: it may have workers, links and topics',
        ),
        (Options(bootstrap="a:1"), "--set bootstrap needs --cluster external"),
        (Options(client_config="file"), "--set client-config needs --cluster external"),
        (Options(keep="topics"), "--keep topics needs --cluster external"),
        (
            Options(prefix="team-x"),
            "--set prefix needs --cluster external: a cluster that a run starts has only the run's names",
        ),
        (
            Options(permits=("workers",)),
            "--set permits needs --cluster external: all faults may be injected into a cluster that a run starts",
        ),
        (Options(cluster="dcoker"), 'there is no cluster "dcoker"; did you mean "docker"?'),
    ],
)
def test_options_that_do_not_fit_a_kind_are_refused(options: Options, message: str) -> None:
    with pytest.raises(UsageError) as error:
        require_options(options)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "options",
    [
        replace(EXTERNAL, bootstrap=None, client_config="file", keep="topics"),
        replace(EXTERNAL, permits=("workers", "links"), prefix="team-x"),
        replace(EXTERNAL, permits=("topics",)),
        Options(keep="logs", settings={"x": "1"}),
        Options(cluster="docker", image="bundled"),
    ],
)
def test_options_that_fit_a_kind_are_accepted(options: Options) -> None:
    require_options(options)


def test_the_option_brokers_is_refused_for_an_external_cluster() -> None:
    with pytest.raises(
        UsageError, match="an external cluster has its own number of brokers: leave out --brokers"
    ):
        check_brokers_option("external", {"brokers", "seed"})
    check_brokers_option("local", {"brokers"})
    check_brokers_option("external", {"seed"})
    with pytest.raises(UsageError, match='there is no cluster "moon"'):
        check_brokers_option("moon", ())


def test_permits_links_adds_network_effects_to_the_abilities() -> None:
    assert Cut not in abilities_of(EXTERNAL)
    assert Cut in abilities_of(replace(EXTERNAL, permits=("links",)))


def test_permits_topics_adds_only_that_partitions_are_added() -> None:
    assert abilities_of(replace(EXTERNAL, permits=("topics",))) == {Ability.ADD_PARTITIONS}
    assert all(Ability.ADD_PARTITIONS in CLUSTERS[kind].abilities for kind in ("local", "docker"))


def test_clusters_able_to_names_kinds_and_permits() -> None:
    assert clusters_able_to({Cut}) == "--cluster local or docker or external --set permits=links"
    assert clusters_able_to({Ability.PACKETS, Cut}) == "--cluster docker"


def test_a_new_kind_needs_only_a_line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = replace(CLUSTERS["external"], name="remote", permits={})
    monkeypatch.setattr(registry, "CLUSTERS", {**CLUSTERS, "remote": remote})
    require_options(Options(cluster="remote", bootstrap="a:1"))
    with pytest.raises(UsageError, match="--set bootstrap needs --cluster external or remote"):
        require_options(Options(bootstrap="a:1"))


def comparisons_with_a_kind(path: Path) -> Iterator[str]:
    """Yield `file:line` of code that compares an expression with the name of a kind, or uses it as a key."""
    code = path.read_text()
    if not any(re.search(rf"""["']{name}["']""", code) for name in CLUSTERS):
        return  # to walk all files takes seconds
    for node in ast.walk(ast.parse(code)):
        expressions: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            expressions = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            expressions = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Subscript):
            expressions = [node.slice]
        elif isinstance(node, ast.MatchValue):
            expressions = [node.value]
        elements = [
            element
            for expression in expressions
            for element in (
                expression.elts if isinstance(expression, ast.Tuple | ast.Set | ast.List) else [expression]
            )
        ]
        for element in elements:
            if isinstance(element, ast.Constant) and element.value in CLUSTERS:
                yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_no_code_outside_the_table_uses_the_name_of_a_kind() -> None:
    table = ROOT / "harness" / "cluster" / "kinds"
    paths = (
        path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if table not in path.parents
    )
    assert [line for path in paths for line in comparisons_with_a_kind(path)] == []


def test_a_comparison_with_the_name_of_a_kind_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    code = tmp_path / "code.py"
    code.write_text(
        'x = a == "external"\ny = a in ("docker", "x")\nz = {"local": 1}[b]\nq = {"cluster": "local"}\n'
    )
    assert list(comparisons_with_a_kind(code)) == ["code.py:1", "code.py:2", "code.py:3"]

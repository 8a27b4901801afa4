"""The table of the kinds of cluster: what each takes and refuses, and that nothing else asks for a kind by name."""

import ast
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

HOUSE = Path(__file__).resolve().parents[3]
ROOMS = ("fencepost", "harness", "workloads", "nemeses", "checkers", "reports")
EXTERNAL = Options(cluster="external", bootstrap="a:1")


@pytest.mark.parametrize(
    ("options", "words"),
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
            'permits cannot be "brokers" for an external cluster: it may have workers and links',
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
def test_options_that_a_kind_does_not_take_are_refused(options: Options, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        require_options(options)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    "options",
    [
        replace(EXTERNAL, bootstrap=None, client_config="file", keep="topics"),
        replace(EXTERNAL, permits=("workers", "links"), prefix="team-x"),
        Options(keep="logs", settings={"x": "1"}),
        Options(cluster="docker", image="bundled"),
    ],
)
def test_options_that_a_kind_takes_pass(options: Options) -> None:
    require_options(options)


def test_how_many_brokers_an_external_cluster_has_is_not_to_be_said() -> None:
    with pytest.raises(
        UsageError, match="an external cluster has its own number of brokers: leave out --brokers"
    ):
        check_brokers_option("external", {"brokers", "seed"})
    check_brokers_option("local", {"brokers"})
    check_brokers_option("external", {"seed"})
    with pytest.raises(UsageError, match='there is no cluster "moon"'):
        check_brokers_option("moon", ())


def test_links_that_are_permitted_can_have_effects() -> None:
    assert Cut not in abilities_of(EXTERNAL)
    assert Cut in abilities_of(replace(EXTERNAL, permits=("links",)))


def test_a_message_says_which_clusters_can_do_it() -> None:
    assert clusters_able_to({Cut}) == "--cluster local or docker or external --set permits=links"
    assert clusters_able_to({Ability.PACKETS, Cut}) == "--cluster docker"


def test_a_kind_that_is_added_is_one_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = replace(CLUSTERS["external"], name="remote", permits={})
    monkeypatch.setattr(registry, "CLUSTERS", {**CLUSTERS, "remote": remote})
    require_options(Options(cluster="remote", bootstrap="a:1"))
    with pytest.raises(UsageError, match="--set bootstrap needs --cluster external or remote"):
        require_options(Options(bootstrap="a:1"))


def names_compared(path: Path) -> Iterator[str]:
    """The places where code compares something with the name of a kind, or looks something up by it."""
    for node in ast.walk(ast.parse(path.read_text())):
        looked_at: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            looked_at = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            looked_at = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Subscript):
            looked_at = [node.slice]
        elif isinstance(node, ast.MatchValue):
            looked_at = [node.value]
        elements = [
            inner
            for one in looked_at
            for inner in (one.elts if isinstance(one, ast.Tuple | ast.Set | ast.List) else [one])
        ]
        for one in elements:
            if isinstance(one, ast.Constant) and one.value in CLUSTERS:
                yield f"{path.relative_to(HOUSE)}:{node.lineno}"


def test_nothing_outside_the_table_asks_for_a_kind_by_its_name() -> None:
    table = HOUSE / "harness" / "cluster" / "kinds"
    paths = (path for room in ROOMS for path in (HOUSE / room).rglob("*.py") if table not in path.parents)
    assert [place for path in paths for place in names_compared(path)] == []


def test_a_comparison_with_the_name_of_a_kind_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "HOUSE", tmp_path)
    code = tmp_path / "code.py"
    code.write_text(
        'x = a == "external"\ny = a in ("docker", "x")\nz = {"local": 1}[b]\nq = {"cluster": "local"}\n'
    )
    assert list(names_compared(code)) == ["code.py:1", "code.py:2", "code.py:3"]

"""Every workload on every client under faults that are drawn: never invalid. Asked for by `make chaos`.

Its last words are the table of docs/workloads.md: what came of each workload on each client.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencepost
from harness.environment.client_versions import CLIENTS
from workloads.registry import WORKLOADS

SEEDS = range(1, 6)
Cells = dict[tuple[str, str], list[str]]


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    """By workload and client, how each run ended; told as a table at the end."""
    told: Cells = defaultdict(list)
    yield told
    print("\n| workload | " + " | ".join(CLIENTS) + " |\n|---|" + "---|" * len(CLIENTS))  # noqa: T201
    for name in WORKLOADS:
        row = [", ".join(told[name, client]) or "not run" for client in CLIENTS]
        print(f"| `{name}` | " + " | ".join(row) + " |")  # noqa: T201


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_a_right_pipeline_is_never_invalid(
    workload: str, client: str, seed: int, tmp_path: Path, cells: Cells
) -> None:
    result = fencepost.run(workload=workload, client=client, seed=seed, time_limit=30, store=str(tmp_path))
    word = {True: "valid", False: "INVALID", None: "unknown"}[result.valid]
    cells[workload, client].append(f"{word} ({seed})")
    assert result.valid is True, result.explain()

"""Every workload on every client under drawn faults is valid (`make chaos`).

At the end, the module prints the table of docs/workloads.md: the results of each workload on each client.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencepost
from harness.environment.versions import CLIENTS
from workloads.registry import WORKLOADS

SEEDS = range(1, 6)
Cells = dict[tuple[str, str], list[str]]


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    """Collect the results by workload and client, and print them as a table at the end."""
    results: Cells = defaultdict(list)
    yield results
    print("\n| workload | " + " | ".join(CLIENTS) + " |\n|---|" + "---|" * len(CLIENTS))  # noqa: T201
    for name in WORKLOADS:
        row = [", ".join(results[name, client]) or "not run" for client in CLIENTS]
        print(f"| `{name}` | " + " | ".join(row) + " |")  # noqa: T201


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_every_workload_is_valid_on_every_client(
    workload: str, client: str, seed: int, tmp_path: Path, cells: Cells
) -> None:
    result = fencepost.run(workload=workload, client=client, seed=seed, time_limit=30, store=str(tmp_path))
    word = {True: "valid", False: "INVALID", None: "unknown"}[result.valid]
    cells[workload, client].append(f"{word} ({seed})")
    assert result.valid is True, result.explain()

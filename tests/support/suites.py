"""Results of suites and their cells, for tests of the pages that show them."""

from typing import Any

from harness.results.suite import Cell, CellState, Flake, Suite

REASONS = {
    CellState.VALID: "9,000 inputs of all stages took effect exactly once under 3 faults",
    CellState.CAUGHT: "7 inputs were lost",
    CellState.KNOWN: "12 inputs took effect more than once",
    CellState.INVALID: "4 inputs took effect more than once",
    CellState.MISSED: "the planted defect was not caught: expected lost-input",
    CellState.UNKNOWN: "kill-broker did not act",
    CellState.FAILED: "waited 60 s for broker 2 to answer; last seen: nothing",
    CellState.NOT_CHECKED: "",
    CellState.NOT_RUN: "the suite's --limit left no time for it",
}
ANOMALIES = {
    CellState.CAUGHT: {"lost-input": 7},
    CellState.KNOWN: {"reprocessed-input": 12},
    CellState.INVALID: {"reprocessed-input": 4},
}


def cell(
    workload: str = "shop",
    client: str = "librdkafka",
    nemesis: str = "kill-broker",
    state: CellState = CellState.VALID,
    **more: Any,
) -> Cell:
    """A cell with the fields that belong to its state."""
    name = " ".join([workload, client, nemesis, *(f"{k}={v}" for k, v in more.get("more", {}).items())])
    ran = state is not CellState.NOT_RUN
    fields = {
        "name": name,
        "seed": 7,
        "kafka": "4.3.1",
        "options": {"workload": workload, "client": client, "time-limit": 60.0},
        "command": f"fencepost run --workload {workload} --nemesis {nemesis} --seed 7",
        "slug": name.replace(" ", "-").replace("=", "-"),
        "reason": REASONS[state],
        "anomalies": ANOMALIES.get(state, {}),
        "known": "retries are not idempotent (until 2027-01-31)" if state is CellState.KNOWN else "",
        "expected": "planted: offsets are not rewound"
        if state in (CellState.CAUGHT, CellState.MISSED)
        else "",
        "run": f"runs/{name.replace(' ', '-')}/20261124T200000Z" if ran else None,
        "started": "2026-11-24T20:00:00+00:00" if ran else None,
        "duration_s": 95.0 if ran else None,
        "versions": {"kafka": "4.3.1"} if ran else {},
        "fingerprint": "0123456789abcdef",
        "new": state is CellState.INVALID,
        "before": CellState.VALID if state is CellState.INVALID else None,
        "flake": Flake(30, 2) if ran else Flake(),
        **more,
    }
    return Cell(workload=workload, client=client, nemesis=nemesis, state=state, **fields)


def suite(*cells: Cell, **more: Any) -> Suite:
    """A suite. By default it has a cell in each state, for two clients."""
    if not cells:
        cells = tuple(
            cell(workload, client, nemesis, state)
            for (workload, nemesis), state in zip(
                [
                    (w, n)
                    for w in ("shop", "orders", "txn", "cdc", "echo")
                    for n in ("kill-broker", "partition")
                ],
                [*CellState, CellState.VALID],
                strict=True,
            )
            for client in ("librdkafka", "java")
        )
    fields = {
        "name": "nightly",
        "file": "suites/nightly.toml",
        "seed": 42,
        "judge": "together",
        "started": "2026-11-24T20:00:00+00:00",
        "ended": "2026-11-24T22:00:00+00:00",
        "took_s": 7200.0,
        "check_s": 61.0,
        "previous": "2026-11-23T20:00:00+00:00",
        "remarks": ("known 1 (reprocessed-input: a bug) no longer fails in any of its 2 cells: remove it",),
        **more,
    }
    return Suite(cells=cells, **fields)

"""External histories: one job checks them all, and each is compared with the definition in `tests/reference`."""

import json
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from checkers.histories.check import check_histories
from checkers.histories.processes import TaskProcesses
from checkers.histories.table import FileTable
from fencepost.checks.verdict_rules import decide_external
from harness.record.history_form import MICRO, NAMES, OPEN, OPS, OUTCOMES
from harness.results.verdict import Verdict
from tests.reference.generate import PLANTABLE, bent, random_history
from tests.reference.history import Event, History, operations
from tests.reference.jepsen import verdict_of
from tests.reference.records import numbers, unsettled

Drawn = Sequence[list[Event]]
PROCESSES = 3
ROWS_OF_GROUP = 2_000
"""Rows that are read together. If tasks are small, several of them read a table."""


def random_histories(seeds: Iterable[int]) -> Iterator[list[Event]]:
    """One history for each seed. It has planted anomalies, and every third has random changes besides."""
    for seed in seeds:
        rng = Random(seed)
        planted = set(rng.sample(sorted(PLANTABLE), rng.randint(0, 3)))
        events = random_history(rng, rng.randint(5, 40), planted)
        yield bent(rng, events, rng.randint(1, 6)) if seed % 3 == 0 else events


def to_number(value: object) -> int:
    """A key or a value as a number. The product numbers them differently, and other tests cover that."""
    return value if isinstance(value, int) else zlib.crc32(json.dumps(value).encode())


def tables(drawn: Drawn) -> tuple[pa.Table, pa.Table]:
    """The tables OPS and MICRO of all histories. Each history is one run."""
    ops, micro = [], []
    for run, events in enumerate(drawn):
        for op in operations(events):
            outcome = OUTCOMES.index(op.type)
            line = 1 + (op.invoked if outcome == OPEN else op.completed)
            common = {"run": run, "op": line, "process": op.process, "outcome": outcome}
            ops.append(
                common
                | {"f": op.f, "invoked": op.invoked + 1, "isolation": op.isolation}
                | {"keys": list(map(to_number, op.keys)), "rebalanced": list(map(to_number, op.rebalanced))}
            )
            for polled, records in ((False, op.sends), (True, op.reads)):
                for n, record in enumerate(records):
                    columns = {"key": to_number(record.key), "offset": record.offset, "n": n}
                    micro.append(common | columns | {"value": to_number(record.value), "polled": polled})
    return pa.Table.from_pylist(ops, schema=OPS), pa.Table.from_pylist(micro, schema=MICRO)


def check(spark: SparkSession, drawn: Drawn) -> list[Verdict]:
    """The verdict of the product for each history."""
    with tempfile.TemporaryDirectory() as folder, TaskProcesses(PROCESSES) as pool:
        files = []
        for form, table in zip((OPS, MICRO, NAMES), (*tables(drawn), NAMES.empty_table()), strict=True):
            path = Path(folder) / f"{len(files)}.parquet"
            pq.write_table(table, path, row_group_size=ROWS_OF_GROUP)
            files.append(FileTable(form, [(None, path)], pool))
        findings = check_histories(*files, range(len(drawn)), examples=1, session=lambda: spark)
    return [decide_external(Path("history.jsonl"), findings[run]) for run in range(len(drawn))]


@dataclass(frozen=True)
class ExpectedVerdict:
    """The parts of a verdict that the definition determines."""

    valid: bool | str
    counts: Mapping[str, int]
    allowed: Set[str]
    unsettled: int
    numbers: Mapping[str, int]

    def difference(self, verdict: Verdict) -> str | None:
        """Describe the parts of a verdict that are not as expected; None if there are none."""
        actual = ExpectedVerdict(
            verdict.valid,
            {name: anomaly.count for name, anomaly in verdict.anomalies.items()},
            {name for name, anomaly in verdict.anomalies.items() if anomaly.allowed},
            verdict.unsettled.count,
            {**verdict.coverage, **verdict.stats},
        )
        parts = [
            field.name for field in fields(self) if getattr(actual, field.name) != getattr(self, field.name)
        ]
        return f"{', '.join(parts)}: the verdict has {actual}, expected is {self}" if parts else None


def expected_verdict(events: list[Event]) -> ExpectedVerdict:
    """The verdict by the definition in `tests/reference`."""
    h = History(events)
    return ExpectedVerdict(*verdict_of(h), len(unsettled(h)), numbers(h))


def assert_expected_verdict(events: list[Event], verdict: Verdict) -> None:
    """Assert that a verdict agrees with the definition."""
    difference = expected_verdict(events).difference(verdict)
    assert difference is None, "\n".join([difference, *map(json.dumps, events)])

"""Histories of what clients told, judged in one job and held against the definition in `tests/reference`."""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random

import pyarrow as pa
from pyspark.sql import SparkSession

from checkers.checking.external_histories import check_histories
from checkers.external.table import SparkTable
from fencepost.checks.verdict_rules import decide_external
from harness.history_files.schema import MICRO, NAMES, OPEN, OPS, OUTCOMES
from harness.results.verdict import Verdict
from tests.reference.generate import PLANTABLE, bent, random_history
from tests.reference.history import Event, History, operations
from tests.reference.jepsen import verdict
from tests.reference.records import numbers, unsettled

Drawn = Sequence[list[Event]]


def random_ones(seeds: Iterable[int]) -> Iterator[list[Event]]:
    """One for each seed: with anomalies planted, or bent until it is true of no broker."""
    for seed in seeds:
        rng = Random(seed)
        planted = set(rng.sample(sorted(PLANTABLE), rng.randint(0, 3)))
        events = random_history(rng, rng.randint(5, 40), planted)
        yield bent(rng, events, rng.randint(1, 6)) if seed % 3 == 0 else events


def number(thing: object) -> int:
    """A key or a value as a number; the reader has its own way, and its own tests."""
    return thing if isinstance(thing, int) else zlib.crc32(json.dumps(thing).encode())


def tables(drawn: Drawn) -> tuple[pa.Table, pa.Table]:
    """OPS and MICRO of all histories, each a run of its own."""
    ops, micro = [], []
    for run, events in enumerate(drawn):
        for op in operations(events):
            outcome = OUTCOMES.index(op.type)
            line = 1 + (op.invoked if outcome == OPEN else op.completed)
            common = {"run": run, "op": line, "process": op.process, "outcome": outcome}
            ops.append(
                common
                | {"f": op.f, "invoked": op.invoked + 1, "isolation": op.isolation}
                | {"keys": list(map(number, op.keys)), "rebalanced": list(map(number, op.rebalanced))}
            )
            for polled, records in ((False, op.sends), (True, op.reads)):
                for n, record in enumerate(records):
                    place = {"key": number(record.key), "offset": record.offset, "n": n}
                    micro.append(common | place | {"value": number(record.value), "polled": polled})
    return pa.Table.from_pylist(ops, schema=OPS), pa.Table.from_pylist(micro, schema=MICRO)


def judge(spark: SparkSession, drawn: Drawn) -> list[Verdict]:
    """What the checkers say of each."""
    ops, micro = (SparkTable(spark.createDataFrame(table)) for table in tables(drawn))
    names = SparkTable(spark.createDataFrame(NAMES.empty_table()))
    found = check_histories(ops, micro, names, range(len(drawn)), examples=1)
    return [decide_external(Path("history.jsonl"), found[run]) for run in range(len(drawn))]


@dataclass(frozen=True)
class Defined:
    """What must be said of a history."""

    valid: bool | str
    counts: Mapping[str, int]
    allowed: Set[str]
    unsettled: int
    numbers: Mapping[str, int]

    def differs(self, said: Verdict) -> str | None:
        """What is said otherwise."""
        told = Defined(
            said.valid.json,
            {name: anomaly.count for name, anomaly in said.anomalies.items()},
            {name for name, anomaly in said.anomalies.items() if anomaly.allowed},
            said.unsettled.count,
            {**said.coverage, **said.stats},
        )
        parts = [
            field.name for field in fields(self) if getattr(told, field.name) != getattr(self, field.name)
        ]
        return f"{', '.join(parts)}: {told} is said, not {self}" if parts else None


def define(events: list[Event]) -> Defined:
    """By the definition in `tests/reference`."""
    h = History(events)
    return Defined(*verdict(events), len(unsettled(h)), numbers(h))


def holds(events: list[Event], said: Verdict) -> None:
    """It is judged as it is defined."""
    difference = define(events).differs(said)
    assert difference is None, "\n".join([difference, *map(json.dumps, events)])

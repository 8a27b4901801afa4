"""What clients told: every small history and many random ones, against the definition in `tests/plain`.

All are judged in one Spark job, each as a run of its own, smallest first, so that the first difference is
already minimal. The random ones have anomalies planted, or are bent until they are true of no broker.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from plain.generate import PLANTABLE, bent, random_history, small
from plain.history import Event, History, operations
from plain.jepsen import NAMES as DEFINED
from plain.jepsen import verdict
from plain.records import unsettled
from pyspark.sql import SparkSession

from checkers.judge_told import judge_told
from fencepost.histories import conclude
from harness.history_files.schema import MICRO, NAMES, OPEN, OPS, OUTCOMES
from harness.verdict import Verdict

RANDOM = 400


def histories() -> Iterator[list[Event]]:
    """Small ones, then random ones."""
    yield from small()
    for seed in range(RANDOM):
        rng = Random(seed)
        planted = set(rng.sample(sorted(PLANTABLE), rng.randint(0, 3)))
        events = random_history(rng, rng.randint(5, 40), planted)
        yield bent(rng, events, rng.randint(1, 6)) if seed % 3 == 0 else events


def number(thing: object) -> int:
    """A key or a value as a number; the reader has its own way, and its own tests."""
    return thing if isinstance(thing, int) else zlib.crc32(json.dumps(thing).encode())


def tables(all_events: list[list[Event]]) -> tuple[pa.Table, pa.Table]:
    """OPS and MICRO of all histories."""
    ops, micro = [], []
    for run, events in enumerate(all_events):
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


@pytest.fixture(scope="module")
def drawn() -> list[list[Event]]:
    return list(histories())


@pytest.fixture(scope="module")
def judged(spark: SparkSession, drawn: list[list[Event]]) -> list[Verdict]:
    ops, micro = (spark.createDataFrame(table) for table in tables(drawn))
    names = spark.createDataFrame(NAMES.empty_table())
    found = judge_told(ops, micro, names, range(len(drawn)), examples=1)
    return [conclude(Path("history.jsonl"), found[run]) for run in range(len(drawn))]


def test_every_history_is_judged_as_it_is_defined(drawn: list[list[Event]], judged: list[Verdict]) -> None:
    for events, said in zip(drawn, judged, strict=True):
        valid, counts, allowed = verdict(events)
        found = {name: anomaly.count for name, anomaly in said.anomalies.items()}
        words = "\n".join(map(json.dumps, events))
        assert found == counts, words
        assert {name for name, anomaly in said.anomalies.items() if anomaly.allowed} == allowed, words
        assert said.valid.json == valid, words
        assert said.unsettled.count == len(unsettled(History(events))), words


def test_every_name_occurs_and_so_does_every_verdict(judged: list[Verdict]) -> None:
    seen = Counter(name for said in judged for name in said.anomalies)
    assert {name for name in DEFINED if seen[name] < 10} == set()
    assert {said.valid.json for said in judged} == {True, False, "unknown"}

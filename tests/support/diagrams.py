"""The messages that the diagram of each planted defect must show, in this order."""

import re
from collections.abc import Sequence
from pathlib import Path

from harness.record.table_reader import RunTables
from harness.results.verdict import Verdict
from reports.story.counterexamples import counterexamples
from reports.story.run import Story
from reports.summary import causes_first

COMMITS = r"^(\S+) -> (coordinator of .*|transaction coordinators): EndTxn\(commit\)"
ABORTS = r"^(coordinator of .*|transaction coordinators).*: (PrepareAbort|failure)"
INPUT = r"^\S+ -> (\S+): input @"
RECORD = r"^(\S+) -> \S+: records? @"
OUTSIDE = r"offset \d+ of \S+, outside any transaction"
OFFSET = r"^\S+ -> group \S+: offset \d+"

READ = r"^[^/ ]+/\d+ -> \S+: records? @"

DIAGRAMS: dict[str, Sequence[str]] = {
    "offsets-outside-transaction": (r"begins a transaction", COMMITS, r": success", OUTSIDE),
    "no-rewind": (INPUT, ABORTS),
    "random-transactional-id": (INPUT, r"was paused and replaced", INPUT, COMMITS, COMMITS),
    "read-uncommitted": (RECORD, READ, ABORTS, r"abort marker @"),
    "offsets-before-transaction": (INPUT, OUTSIDE),
    "auto-commit": (INPUT, OUTSIDE),
    "dead-letter-outside": (INPUT, RECORD, INPUT, RECORD),
    "state-past-commit": (RECORD,),
    "side-effect": (INPUT, INPUT, r" -> final-"),
    "position-apart": (INPUT, INPUT),
    "mark-before-send": (),  # its inputs are rows of a table, which no message has
    "relay-skips": (),
    "shared-transactional-id": (),  # a warning: the run is valid, and nothing is drawn
    "wrong-pin": (),
    "ignore-unknown-commit": (INPUT, COMMITS, r"outcome unknown"),
    "swallow-send-error": (INPUT, COMMITS, r": success"),
    "null-as-empty": (RECORD,),
    "headers-dropped": (RECORD,),
    "acks-one": (RECORD,),
    "no-idempotence": (RECORD,),
}
"""By defect: regular expressions, each for one message of the diagram (`shop-1.0 -> invoices/1: record @36`). Other
messages may be between them. Empty: there is no diagram.
"""
ALTERNATIVES: dict[str, Sequence[Sequence[str]]] = {
    "read-uncommitted": (  # a slow worker reads it before the marker, or after it
        (RECORD, ABORTS, READ, r"abort marker @"),
        (RECORD, ABORTS, r"abort marker @", READ),
    ),
    # The worker is killed before it commits an offset.
    "auto-commit": ((INPUT, COMMITS, r"was killed", INPUT),),
}
"""By defect: what the diagram may show instead."""


def drawn_messages(folder: Path) -> list[list[str]]:
    """Return the messages of each diagram in the report of a run."""
    verdict, t = Verdict.load(folder / "verdict.json"), RunTables(folder)
    found = counterexamples(Story(t, verdict.faults), causes_first(verdict.anomalies))
    return [[str(message) for message in each.diagram.messages] for each in found]


def first_missing(messages: Sequence[str], patterns: Sequence[str]) -> str | None:
    """Return the first pattern without a message behind that of the pattern before. None: all are there."""
    remaining = iter(messages)
    for pattern in patterns:
        if not any(re.search(pattern, message) for message in remaining):
            return pattern
    return None


def assert_drawn(folder: Path, defect: str) -> None:
    """Assert that a diagram in the report of a run shows the messages of a defect, in order."""
    shapes = [patterns for patterns in (DIAGRAMS[defect], *ALTERNATIVES.get(defect, ())) if patterns]
    diagrams = drawn_messages(folder)
    missing = [first_missing(messages, patterns) for messages in diagrams for patterns in shapes]
    assert None in missing or not shapes, f"no diagram shows one of {shapes}: {missing} missing in {diagrams}"

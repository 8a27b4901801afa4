"""The cases of an exploration: what is tried in a run, and what came of it.

A case is a small program of transactions with a fault on one message, or on two. Case n has the input partition n, and
so its own transactional id.
"""

from pathlib import Path

import msgspec

from harness.processes.messages import ProcessMessage, encode
from harness.protocol.rules import ProtocolRule

OVER = "over"
"""The step after the last part of a program. What the worker does then is no part of the program."""
OUTPUTS = "outputs"
"""The step in which a worker sends the outputs of all topics at once."""
FILE = "cases.json"
"""The file in a run folder with the outcomes of its cases."""


class CaseFault(ProcessMessage, frozen=True):
    """A fault on one message: a rule that comes into force just before a step."""

    stop: str
    rule: ProtocolRule


class Case(ProcessMessage, frozen=True):
    """One case."""

    number: int  # the input partition
    name: str  # "CC hold EndTxn#1 > Produce#4"
    program: str  # see `workloads.loop.programs`
    faults: tuple[CaseFault, ...] = ()


class CaseOutcome(ProcessMessage, frozen=True):
    """The outcome of a case. Times are on the monotonic clock, in nanoseconds."""

    case: Case
    began_ns: int
    ended_ns: int
    steps: tuple[tuple[int, str], ...] = ()  # the steps of the program that were reached, each with its time
    errors: tuple[str, ...] = ()  # the errors after which its client needed a new producer
    acted: bool = False  # each rule acted on a message, and its effect is proved
    proof: str = ""  # what the rules did, or why an effect is not proved
    stuck: str = ""  # why the case did not end; empty: it ended


class _Outcomes(ProcessMessage, frozen=True):
    cases: tuple[CaseOutcome, ...]


def encode_cases(cases: list[Case]) -> str:
    """Return cases as a parameter of a fault."""
    return msgspec.json.encode(cases).decode()


def decode_cases(text: str) -> list[Case]:
    """The inverse of `encode_cases`."""
    return msgspec.json.decode(text, type=list[Case])


def write_outcomes(folder: Path, outcomes: list[CaseOutcome]) -> None:
    """Write the outcomes of a run."""
    (folder / FILE).write_bytes(encode(_Outcomes(tuple(outcomes))))


def read_outcomes(folder: Path) -> tuple[CaseOutcome, ...]:
    """Read the outcomes of a run."""
    return msgspec.json.decode((folder / FILE).read_bytes(), type=_Outcomes).cases

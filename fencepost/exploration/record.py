"""The record of an exploration: `explore.json`. It is written after each batch, so that an exploration can go on."""

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field, structs

from harness.common.documents import decode, encode, json_text, read_json
from harness.common.errors import UnreadableInput
from harness.results.reasons import Reason
from harness.results.verdict import Validity

FILE = "explore.json"
TIMES_ALONE = 3
"""How often a case that was not right is tried alone."""


SentRequest = tuple[str, int, str, int]
"""A request of a program, as in `fencepost.exploration.space.Request`: API, number, step, number in the step."""


class CaseVerdict(StrEnum):
    """The verdict of a case."""

    RIGHT = "right"
    WRONG = "wrong"  # there is an anomaly
    FENCED = "fenced"  # its client needed a new producer, and then all was right
    STUCK = "stuck"  # it did not end
    NOT_MET = "not-met"  # its rule had no effect


class TriedCase(Struct, omit_defaults=True):
    """A case that was tried in a batch, and what came of it alone."""

    verdict: CaseVerdict
    batch: Annotated[str, Meta(description="the run folder")]
    number: Annotated[int, Meta(description="its partition in that run")]
    anomalies: list[str] = []
    proof: Annotated[str, Meta(description="what its rule did, or why it had no effect")] = ""
    errors: Annotated[list[str], Meta(description="errors after which its client needed a new producer")] = []
    stuck: str = ""
    changed: Annotated[
        list[SentRequest],
        Meta(description="with --pairs: the requests it sent, if they differ from those without a fault"),
    ] = []
    why: Annotated[list[str], Meta(description="for each anomaly, a sentence about its first finding")] = []
    alone: Annotated[
        list["TriedCase"], Meta(description="the same for each time that it was tried alone")
    ] = []

    @property
    def tries(self) -> "list[TriedCase]":
        """All times that it was tried: in a batch, and alone."""
        return [self, *self.alone]

    @property
    def settled(self) -> CaseVerdict:
        """Its verdict: wrong if it was wrong once; else right or fenced, if it was that once."""
        verdicts = [each.verdict for each in self.tries]
        order = (CaseVerdict.WRONG, CaseVerdict.RIGHT, CaseVerdict.FENCED)
        return next((each for each in order if each in verdicts), self.verdict)

    @property
    def found(self) -> list[str]:
        """The anomalies of all times that it was tried."""
        return list(dict.fromkeys(name for each in self.tries for name in each.anomalies))

    @property
    def confirmed(self) -> bool:
        """Whether each try alone had the same anomaly."""
        found = [set(each.anomalies) for each in self.alone]
        return len(found) >= TIMES_ALONE > 0 and bool(set.intersection(*found))

    @property
    def times_due(self) -> int:
        """How often it must still be tried alone."""
        is_clear = self.settled in (CaseVerdict.RIGHT, CaseVerdict.FENCED)
        return 0 if is_clear else max(0, TIMES_ALONE - len(self.alone))

    @property
    def is_open(self) -> bool:
        """Whether its verdict is not certain: it was never met, it did not end, or it is wrong and not confirmed."""
        return not self.confirmed and self.settled not in (CaseVerdict.RIGHT, CaseVerdict.FENCED)

    @property
    def unsteady(self) -> bool:
        """Whether it was wrong, and was tried alone often enough, and not the same each time."""
        return self.settled is CaseVerdict.WRONG and len(self.alone) >= TIMES_ALONE and not self.confirmed

    @property
    def alone_words(self) -> str:
        """How often it was wrong alone: `3 of 3`."""
        return f"{sum(each.verdict is CaseVerdict.WRONG for each in self.alone)} of {len(self.alone)}"


class Scope(Struct, frozen=True):
    """What is explored. Two explorations with the same scope try the same cases."""

    programs: tuple[str, ...]
    kinds: tuple[str, ...]
    all_errors: bool = False
    members: bool = False  # the workers are members of their group
    pairs: bool = False  # also a second fault behind each that changed the requests
    brokers: int = 1

    @property
    def sorted(self) -> "Scope":
        """The same, in an order that does not depend on the command."""
        return structs.replace(self, programs=tuple(sorted(self.programs)), kinds=tuple(sorted(self.kinds)))


class Exploration(Struct):
    """An exploration of one client."""

    client: str
    kafka: str
    transaction_version: int
    scope: Scope
    command: str = "fencepost explore"  # with the options of the client and the cluster
    only: str = ""  # the name of the only case that is tried; empty: all are
    sent: dict[str, list[SentRequest]] = field(default_factory=dict)
    """By program, its requests without faults."""
    cases: dict[str, TriedCase] = field(default_factory=dict)  # by name
    all_cases: int = 0
    not_offered: list[str] = field(default_factory=list)  # programs for which the client lacks a step
    wrong_without_fault: dict[str, list[str]] = field(default_factory=dict)
    """By program that is wrong without a fault, the anomalies of all recordings. It has no cases."""
    unknown_because: list[Reason] = field(default_factory=list)  # of its batches
    ended: str = ""  # the UTC time of the last batch, as ISO 8601
    finished: bool = False  # all cases were tried, and alone as often as they must be
    made_by: str = ""  # the version of Fencepost, and a digest of the driver

    def goes_on(self, other: "Exploration", folder: Path) -> bool:
        """Return whether this record, which is in a folder, can be continued as the other one begins.

        Cases whose batch is no longer there are forgotten.
        """
        if self.finished or self.made_by != other.made_by or self.scope.sorted != other.scope.sorted:
            return False
        for name, case in list(self.cases.items()):
            if not all((folder / each.batch / "verdict.json").is_file() for each in case.tries):
                del self.cases[name]
        return True

    @property
    def validity(self) -> Validity:
        """The verdict."""
        if any(case.confirmed for case in self.cases.values()) or any(self.wrong_without_fault.values()):
            return Validity.INVALID
        is_open = self.unknown_because or self.wrong_without_fault
        if not self.cases or is_open or any(case.is_open for case in self.cases.values()):
            return Validity.UNKNOWN
        return Validity.VALID

    @property
    def counts(self) -> Counter[CaseVerdict]:
        """The number of cases by verdict."""
        return Counter(case.settled for case in self.cases.values())

    def save(self, folder: Path) -> None:
        """Write `explore.json`. If this is interrupted, the old file stays."""
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f"{FILE}.new"
        new.write_text(json_text(encode(self)), encoding="utf-8")
        new.replace(folder / FILE)


def load(folder: Path) -> Exploration | None:
    """Read the exploration in a folder. None: there is none. Raises `UnreadableInput`."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return decode(read_json(path), Exploration)
    except ValueError as error:
        raise UnreadableInput(f"{path} cannot be read: {error}; begin again with --again") from error

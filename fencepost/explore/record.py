"""The record of an exploration: `explore.json`. It is written after each batch, so that an exploration can go on."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from harness.common.documents import decode, encode, json_text, read_json
from harness.common.errors import UnreadableInput
from harness.results.verdict import Validity

FILE = "explore.json"
TIMES_ALONE = 3
"""How often a case that was not right is tried alone."""


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
    alone: Annotated[
        list["TriedCase"], Meta(description="the same for each time that it was tried alone")
    ] = []

    @property
    def settled(self) -> CaseVerdict:
        """Its verdict, after it was tried alone: a case that was not met or stuck in the batch may be right alone."""
        if self.verdict in (CaseVerdict.STUCK, CaseVerdict.NOT_MET):
            others = (each.verdict for each in self.alone)
            return next(
                (each for each in others if each not in (CaseVerdict.STUCK, CaseVerdict.NOT_MET)),
                self.verdict,
            )
        return self.verdict

    @property
    def confirmed(self) -> bool:
        """Whether it had the same anomaly each time that it was tried alone."""
        found = [set(each.anomalies) for each in self.alone]
        return len(found) >= TIMES_ALONE > 0 and bool(set.intersection(*found))

    @property
    def is_open(self) -> bool:
        """Whether it is not known what it does: it was never met, or was wrong and not tried alone often enough."""
        if self.settled is CaseVerdict.WRONG:
            return len(self.alone) < TIMES_ALONE
        return self.settled in (CaseVerdict.STUCK, CaseVerdict.NOT_MET)

    @property
    def unsteady(self) -> bool:
        """Whether it was wrong at least once, and at least once not."""
        times = [self, *self.alone]
        return 0 < sum(each.verdict is CaseVerdict.WRONG for each in times) < len(times)


class Exploration(Struct):
    """An exploration of one client."""

    client: str
    kafka: str
    transaction_version: int
    programs: list[str]
    kinds: list[str]
    all_errors: bool
    sent: dict[str, list[tuple[str, int, str]]] = field(default_factory=dict)
    """By program, its requests without faults: the API, the number among those of this API, and the step."""
    cases: dict[str, TriedCase] = field(default_factory=dict)  # by name
    all_cases: int = 0
    unknown_because: list[str] = field(default_factory=list)
    finished: bool = False

    @property
    def validity(self) -> Validity:
        """The verdict."""
        if any(case.confirmed for case in self.cases.values()):
            return Validity.INVALID
        if not self.cases or self.unknown_because or any(case.is_open for case in self.cases.values()):
            return Validity.UNKNOWN
        return Validity.VALID

    def same_space(self, other: "Exploration") -> bool:
        """Whether both have the same programs, kinds and errors."""
        return all(
            getattr(self, name) == getattr(other, name) for name in ("programs", "kinds", "all_errors")
        )

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

"""What is gathered of one run: the small facts that the job has counted, and what they lack."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.stored.tally import Row
from harness.model.vocabulary import Exercise, Role, outputs_in
from harness.results.reasons import Reason, ReasonCode

Fact = tuple[str, Row]
"""Its kind, and what it says."""


@dataclass
class EvidenceCounts:
    """What `checkers.checking.facts.told` says of one run."""

    partitions: dict[int, Row] = field(default_factory=dict)
    journals: list[Row] = field(default_factory=list)
    ends: list[Row] = field(default_factory=list)
    stages: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)  # that have committed, and of which nobody saw the start
    left: dict[str, int] = field(
        default_factory=dict
    )  # by stage without journals: inputs that it left behind
    replicas: list[Row] = field(default_factory=list)
    markers: list[Row] = field(
        default_factory=list
    )  # partitions with markers that no transaction accounts for
    disorder: dict[int, int] = field(default_factory=dict)  # by partition: final deliveries that went back
    progress: dict[tuple[str, int], int | None] = field(
        default_factory=dict
    )  # by group and partition: the last committed offset; None: it committed none
    due: set[str] = field(default_factory=set)  # the stages of which something is expected
    numbers: dict[str, Any] = field(default_factory=lambda: defaultdict(int))

    @classmethod
    def gather(cls, rows: Sequence[Fact]) -> "EvidenceCounts":
        """From pairs of kind and body."""
        facts = cls()
        for kind, body in rows:
            if kind == "partition":
                facts.partitions[body["tp"]] = body
            elif kind in ("journal", "end", "stage", "group", "replica", "markers"):
                {
                    "journal": facts.journals,
                    "end": facts.ends,
                    "stage": facts.stages,
                    "group": facts.groups,
                    "replica": facts.replicas,
                    "markers": facts.markers,
                }[kind].append(body)
            elif kind == "left":
                facts.left[body["stage"]] = body["inputs"]
            elif kind == "disorder":
                facts.disorder[body["tp"]] = body["backwards"]
            elif kind == "progress":
                facts.progress[body.get("group", ""), body["tp"]] = body.get("final")
            elif kind == "due":
                facts.due.add(body["stage"])
            else:
                facts.numbers.update(body)
        return facts

    def have(self, role: Role) -> bool:
        """Whether a process in that role has left a journal."""
        return any(row["role"] == role.value for row in self.journals)

    def total(self, column: str) -> int:
        """Summed over all partitions."""
        return sum(row.get(column, 0) for row in self.partitions.values())

    def outputs_of_any(self) -> int:
        """How many records are visible in topics that no stage reads, or come of inputs."""
        rows = [row for row in self.partitions.values() if not row["internal"]]
        return sum(row.get("outputs" if row["is_input"] else "visible", 0) for row in rows)

    def outputs_by_topic(self) -> dict[str, int]:
        """How many outputs are visible in each topic that has any, as the verdict's coverage names them."""
        found: Counter[str] = Counter()
        for row in self.partitions.values():
            if row.get("outputs"):
                found[outputs_in(row["topic"])] += row["outputs"]
        return dict(sorted(found.items()))

    def counted_for_goals(self) -> dict[str, int]:
        """What only some runs ask to be counted, by the keys of the verdict's coverage."""
        return {**{one.value: self.numbers[one.name.lower()] for one in Exercise}, **self.outputs_by_topic()}

    def name(self, tp: int) -> str:
        """A partition as a person writes it."""
        row = self.partitions.get(tp)
        return f"{row['topic']}/{row['partition']}" if row else f"partition {tp}"

    def logs(self, topic: str | None) -> list[bool]:
        """Whether each partition of an internal topic (None: of every other) has its leader's log."""
        rows = self.partitions.values()
        return [r["logged"] for r in rows if (r["topic"] == topic if topic else not r["internal"])]


@dataclass
class MissingEvidence:
    """What is wrong with the evidence of one run."""

    reasons: dict[str, Reason] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)  # those whose absences prove nothing
    contradiction: Reason | None = None  # the tables contradict themselves: no finding is proof

    def contradicts(self, name: str, sentence: str, *tables: str) -> None:
        """Note that tables contradict themselves, so that nothing that is found in them is proof."""
        reason = Reason(ReasonCode.CONTRADICTORY_EVIDENCE, sentence, name)
        self.reasons.setdefault(name, reason)
        self.tables.update(tables)
        self.contradiction = self.contradiction or reason

    def add(self, name: str, sentence: str, *tables: str) -> None:
        """Note it; the first sentence under a name stays."""
        self.reasons.setdefault(name, Reason(ReasonCode.INCOMPLETE_EVIDENCE, sentence, name))
        self.tables.update(tables)

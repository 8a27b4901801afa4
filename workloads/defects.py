"""Defects: each is one change to the loop, and states the set of anomalies that it may cause.

A run with a defect must find at least one anomaly of the set and nothing outside it (what is
`because` of another aside): this is how the harness is seen to catch something.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.history import Isolation, Step
from workloads.model import Policy


@dataclass(frozen=True)
class Defect:
    """A pipeline that is wrong on purpose."""

    name: str
    summary: str
    policy: Policy
    anomalies: frozenset[str]
    nemesis: tuple[str, ...] = ()  # the faults that provoke it; none: it shows by itself
    step: Step | None = None  # where those faults must strike
    stage: str | None = None  # and in which stage
    references: Mapping[str, str] = field(default_factory=dict)


_ALL = (
    Defect(
        name="offsets-outside-transaction",
        summary="the consumer commits its offsets after the transaction instead of within it",
        policy=Policy(offsets="after-commit"),
        anomalies=frozenset({"reprocessed-input", "lost-input", "offset-output-mismatch"}),
        nemesis=("kill-worker",),
        step=Step.AFTER_COMMIT,
    ),
    Defect(
        name="no-rewind",
        summary="the worker goes on after an abort without seeking back",
        policy=Policy(rewind=False),
        anomalies=frozenset({"lost-input", "offset-output-mismatch"}),
    ),
    Defect(
        name="random-transactional-id",
        summary="a fresh transactional id at each start, and the metadata of a consumer that never joined: "
        "zombies are not fenced",
        policy=Policy(stable_id=False, member_metadata=False),
        anomalies=frozenset(
            {"reprocessed-input", "group-offset-regression", "overlapping-commit", "stale-offset"}
        ),
        nemesis=("pause-worker",),
        step=Step.AFTER_SEND,
        stage="shop",
    ),
    Defect(
        name="read-uncommitted",
        summary="the second stage reads uncommitted records, and acts on them",
        policy=Policy(isolation={"payments": Isolation.READ_UNCOMMITTED}),
        anomalies=frozenset(
            {"phantom", "reprocessed-input", "torn-transaction", "aborted-read", "dirty-read"}
        ),
    ),
)

DEFECTS: dict[str, Defect] = {defect.name: defect for defect in _ALL}


def policy_of(defect: str | None) -> Policy:
    """How the loop works under a defect; without one, right."""
    return DEFECTS[defect].policy if defect else Policy()

"""The defects by name. Each changes the delivery policy in one way and lists the anomalies that it can cause.

A run with a defect must find at least one anomaly of the list and no other, except anomalies that follow from another
one (`because`). This shows that the harness catches bugs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.common.errors import UsageError
from harness.common.wording import join_words
from harness.model.vocabulary import Isolation, WorkerStep
from harness.roles.transactions import ErrorHandling
from workloads.model.policy import CORRECT, Delivery, Policy
from workloads.model.workload import HEADERS, NULL_VALUES, Workload
from workloads.orders import DEAD_LETTER, NOTIFICATION


@dataclass(frozen=True)
class Defect:
    """A planted bug. A run with it must find at least one of its anomalies and no other."""

    name: str
    summary: str
    policy: Policy
    anomalies: frozenset[str]
    options: Mapping[str, object] = field(
        default_factory=dict
    )  # options of the run that the bug needs to appear
    nemesis: tuple[str, ...] = ()  # the faults that provoke it; empty: it appears without faults
    step: WorkerStep | None = None  # the step at which these faults must be injected
    stage: int | None = None  # the stage in which these faults must be injected, from 0; None: any
    stages: int = 1  # the number of stages that a record must be able to pass
    deliveries: frozenset[Delivery] = frozenset({Delivery.TRANSACTIONS, Delivery.PINNED})
    stateful: bool = False  # whether it needs a stage that restores its sums
    output_name: str | None = None  # an output that the workload must have
    shape: str | None = None  # a property that some outputs must have
    clients: frozenset[str] = frozenset({"librdkafka", "java"})  # the clients with which it appears

    def fits(self, workload: Workload) -> bool:
        """Whether the workload can have this defect."""
        return (
            workload.depth >= self.stages
            and not self.deliveries.isdisjoint(workload.deliveries)
            and (not self.stateful or any(map(workload.restores, workload.stages)))
            and (self.output_name is None or self.output_name in workload.output_names)
            and (self.shape is None or self.shape in workload.shapes)
        )

    def stage_of(self, workload: Workload) -> str | None:
        """Return the name of the stage in which its faults are injected. None: any stage."""
        return None if self.stage is None else workload.stages[self.stage].name

    def require(self, workload: Workload, client: str, workloads: Iterable[Workload]) -> None:
        """Raise `UsageError` if the workload cannot have this defect, or if the client prevents it.

        `workloads` has all workloads. The message names those that can have the defect.
        """
        if self.fits(workload) and client not in self.clients:
            raise UsageError(
                f"the client {client} prevents the defect {self.name}: "
                f"choose --client {join_words(sorted(self.clients))}"
            )
        if self.fits(workload):
            return
        if workload.depth < self.stages:
            requirement = f"a workload with {self.stages} stages or more"
        elif self.stateful:
            requirement = "a workload with a stage that restores its sums"
        elif self.shape is not None:
            requirement = f"a workload whose outputs have {self.shape}"
        elif self.output_name is not None:
            requirement = f"a workload that writes the output {self.output_name}"
        else:
            requirement = f"a workload that delivers by {join_words(sorted(self.deliveries))}"
        *others, last = (candidate.name for candidate in workloads if self.fits(candidate))
        suitable = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"the defect {self.name} needs {requirement}: choose --workload {suitable}")


_CYCLES = frozenset(
    {
        # A transaction that reads uncommitted records can read its own, and two can read each other's.
        *("precommitted-read", "G1c", "G1c-process", "G1c-realtime"),
        # The offsets of records of aborted transactions are between those of the records that others read.
        *("poll-skip", "int-poll-skip"),
    }
)

_SUMS = frozenset({"aggregate-mismatch"})
"""Lost and repeated inputs cause this anomaly in a stage that keeps sums of its inputs."""

_ALL = (
    Defect(
        name="offsets-outside-transaction",
        summary="the consumer commits its offsets after the transaction instead of within it",
        policy=Policy(offsets="after-commit"),
        # If the log of offset commits cannot be read, only the worker's journal shows it: stale-offset.
        anomalies=frozenset(
            {"reprocessed-input", "lost-input", "offset-output-mismatch", "stale-offset", *_SUMS}
        ),
        nemesis=("kill-worker",),
        step=WorkerStep.AFTER_COMMIT,
    ),
    Defect(
        name="no-rewind",
        summary="the worker continues after an abort without seeking back",
        policy=Policy(rewind=False),
        anomalies=frozenset({"lost-input", "offset-output-mismatch", "poll-skip", *_SUMS}),
        deliveries=frozenset({Delivery.TRANSACTIONS, Delivery.PINNED, Delivery.PROGRAMS, Delivery.MIXED}),
    ),
    Defect(
        name="random-transactional-id",
        summary="a new transactional id at each start, and group metadata of a consumer that never joined: "
        "zombies are not fenced",
        policy=Policy(stable_id=False, member_metadata=False),
        anomalies=frozenset(
            {"reprocessed-input", "group-offset-regression", "overlapping-commit", "stale-offset", *_SUMS}
        ),
        nemesis=("pause-worker",),
        step=WorkerStep.AFTER_SEND,
        stage=0,
    ),
    Defect(
        name="read-uncommitted",
        summary="every stage except the first reads uncommitted records and processes them",
        policy=Policy(downstream_isolation=Isolation.READ_UNCOMMITTED),
        anomalies=frozenset(
            {
                *("phantom", "reprocessed-input", "torn-transaction", "aborted-read", "dirty-read"),
                *_SUMS,
                *_CYCLES,
            }
        ),
        stages=2,
        deliveries=frozenset({Delivery.TRANSACTIONS, Delivery.PINNED, Delivery.MIXED}),
    ),
    Defect(
        name="offsets-before-transaction",
        summary="the consumer commits its offsets before the transaction begins",
        policy=Policy(offsets="before-transaction"),
        anomalies=frozenset(
            {"lost-input", "offset-output-mismatch", "group-offset-regression", "stale-offset", *_SUMS}
        ),
        nemesis=("kill-worker",),
        step=WorkerStep.AFTER_SEND,
    ),
    Defect(
        name="auto-commit",
        summary="the consumer uses auto-commit, and the transaction holds no offsets",
        policy=Policy(offsets="auto"),
        anomalies=frozenset(
            {
                "lost-input",
                "reprocessed-input",
                "offset-output-mismatch",
                "group-offset-regression",
                "stale-offset",
                *_SUMS,
            }
        ),
        nemesis=("kill-worker",),
        step=WorkerStep.AFTER_COMMIT,
    ),
    Defect(
        name="dead-letter-outside",
        summary="dead letters are sent by a separate producer, outside the transaction",
        policy=Policy(outside=frozenset({DEAD_LETTER})),
        anomalies=frozenset({"reprocessed-input", "offset-output-mismatch"}),
        output_name=DEAD_LETTER,
    ),
    Defect(
        name="state-past-commit",
        summary="a worker also restores its sums from uncommitted records",
        policy=Policy(restore_isolation=Isolation.READ_UNCOMMITTED),
        anomalies=frozenset({"aggregate-mismatch"}),
        nemesis=("kill-worker",),
        step=WorkerStep.AFTER_SEND,
        stage=1,
        stages=2,
        stateful=True,
    ),
    Defect(
        name="side-effect",
        summary="a card is charged in a database during the transaction, and an abort does not undo the charge",
        policy=Policy(side_effect="store.charges"),
        anomalies=frozenset({"reprocessed-input"}),
        nemesis=("kill-worker",),
        step=WorkerStep.BEFORE_COMMIT,
        stage=0,
    ),
    Defect(
        name="position-apart",
        summary="the projector stores its position only in Kafka, and a crash after its effects repeats them",
        policy=Policy(stores_position=False),
        anomalies=frozenset({"reprocessed-input", "aggregate-mismatch"}),
        nemesis=("kill-worker",),
        step=WorkerStep.AFTER_COMMIT,
        stage=1,
        stages=2,
        deliveries=frozenset({Delivery.STORED}),
    ),
    Defect(
        name="mark-before-send",
        summary="the relay marks rows as done before it publishes them, and a crash in between loses them",
        policy=Policy(marks_before_send=True),
        anomalies=frozenset({"lost-input"}),
        nemesis=("kill-worker",),
        step=WorkerStep.AFTER_SEND,
        stage=0,
        deliveries=frozenset({Delivery.RELAYED}),
    ),
    Defect(
        name="relay-skips",
        summary="the relay takes rows above the last published one, and misses rows that commit late",
        policy=Policy(takes_after_last=True),
        anomalies=frozenset({"lost-input"}),
        deliveries=frozenset({Delivery.RELAYED}),
    ),
    Defect(
        name="shared-transactional-id",
        summary="all workers of a stage share one transactional id and fence each other forever",
        policy=Policy(shared_id=True),
        anomalies=frozenset({"contended-id", "undue-fencing", "stalled"}),
        deliveries=frozenset({Delivery.TRANSACTIONS}),
    ),
    Defect(
        name="wrong-pin",
        summary="a worker keeps the producer of a revoked partition and uses it for the next partition that it gains",
        policy=Policy(keeps_producers=True),
        anomalies=frozenset({"contended-id", "undue-fencing", "stalled"}),
        options={"churn": 4.0},  # partitions must move from one worker to another
        deliveries=frozenset({Delivery.PINNED}),
    ),
    Defect(
        name="ignore-unknown-commit",
        summary="the worker treats a commit without a response as successful",
        policy=Policy(handling=ErrorHandling(commit_timeout_s=2.0), treats_unknown_as_ok=True),
        anomalies=frozenset({"lost-input"}),
        nemesis=("cut-txn-coordinator",),
    ),
    Defect(
        name="swallow-send-error",
        summary="a record that the client rejects as too large is skipped, and the rest is committed",
        policy=Policy(handling=ErrorHandling(skips_refused_records=True), largest_bytes=1_000),
        anomalies=frozenset({"lost-input", "torn-transaction", "offset-output-mismatch"}),
        output_name=NOTIFICATION,
        clients=frozenset({"librdkafka"}),  # the Java client refuses to commit after that (KAFKA-9279)
    ),
    Defect(
        name="null-as-empty",
        summary="a null value, which deletes its key, is sent as an empty value",
        policy=Policy(null_as_empty=True),
        anomalies=frozenset({"corrupt"}),
        shape=NULL_VALUES,
    ),
    Defect(
        name="headers-dropped",
        summary="an output is sent without the headers that it should have",
        policy=Policy(drops_headers=True),
        anomalies=frozenset({"corrupt"}),
        shape=HEADERS,
    ),
    Defect(
        name="acks-one",
        summary="a record counts as written when only the leader has it (acks=1)",
        policy=Policy(acks="1", idempotent=False),
        # A record that the observer read is gone, or another record is at its offset.
        anomalies=frozenset(
            {
                "lost-write",
                "lost-input",
                "unseen",
                "vanished",
                "inconsistent-offsets",
                "duplicate",
                "nonmonotonic-send",
                "int-nonmonotonic-send",
            }
        ),
        nemesis=("kill-leader-ahead",),
        deliveries=frozenset({Delivery.IDEMPOTENT}),
    ),
    Defect(
        name="no-idempotence",
        summary="the producer is not idempotent: a retry after a lost response writes the record again",
        policy=Policy(idempotent=False),
        anomalies=frozenset({"duplicate", "nonmonotonic-send", "int-nonmonotonic-send"}),
        nemesis=("lose-answers",),
        deliveries=frozenset({Delivery.IDEMPOTENT}),
    ),
)

DEFECTS: dict[str, Defect] = {defect.name: defect for defect in _ALL}


def policy_of(defect: str | None) -> Policy:
    """Return the policy of a defect, or the correct policy for None."""
    return DEFECTS[defect].policy if defect else CORRECT

"""Epoch regression: the epoch of a producer id went down.

In one partition, the batches and markers of one producer id are compared. A batch has a lower epoch than the batch or
marker directly before it, or a marker has a lower epoch than the batch directly before it. Or a marker has a lower
coordinator epoch than the marker before it. Or, in the transaction log, a transactional id continues with a lower epoch
of the same producer id.

Illegal because a higher epoch fences the lower one: a producer with the lower epoch must not write any more.
Evidence: the order of batches and markers in the leader's log, and the order of states in the transaction log. A state
of the transaction log counts only if the coordinator continued from it. The log also holds states that the replicas
did not confirm in time, and such a state may have a higher epoch that was never used.

    log of x: record of producer 7, epoch 3, at offset 4
    log of x: record of producer 7, epoch 2, at offset 5         <- epoch-regression

Blind spot: two markers without a record between them.
Reference: KIP-98, "fencing zombies"; KIP-360; KIP-890.
"""

from checkers.findings import AnomalyWording, Rule, state
from harness.common.wording import printable
from harness.results.example import Example

NAME = "epoch-regression"


def _entry(offset: str, epoch: str) -> str:
    return f"struct(tp as tp, {offset} as offset, producer_id as producer_id, {epoch} as epoch)"


RULES = (
    Rule(
        NAME,
        "batches",
        where="epoch < entry_before.epoch",
        order=["tp", "base_offset"],
        detail={
            "record": _entry("base_offset", "epoch"),
            "record_before": _entry("entry_before.offset", "entry_before.epoch"),
            "marker_before": "entry_before.marker",
            "producer_id": "producer_id",
            "epoch": "epoch",
            "epoch_before": "entry_before.epoch",
        },
    ),
    Rule(
        NAME,
        "batches",
        where="marker_next.epoch < epoch",
        order=["tp", "marker_next.offset"],
        detail={
            "record": _entry("marker_next.offset", "marker_next.epoch"),
            "record_before": _entry("base_offset", "epoch"),
            "marker": "marker_next.type",
            "producer_id": "producer_id",
            "epoch": "marker_next.epoch",
            "epoch_before": "epoch",
        },
    ),
    Rule(
        NAME,
        "batches",
        where="entry_before.marker is not null and marker_coordinator_epoch < entry_before.coordinator_epoch",
        order=["tp", "marker_offset"],
        detail={
            "record": _entry("marker_offset", "marker_epoch"),
            "record_before": _entry("entry_before.offset", "entry_before.epoch"),
            "producer_id": "producer_id",
            "coordinator_epoch": "marker_coordinator_epoch",
            "coordinator_epoch_before": "entry_before.coordinator_epoch",
        },
    ),
    Rule(
        NAME,
        "states",
        where="before.producer_id = producer_id and epoch < before.epoch "
        "and (before.state in ('Ongoing', 'CompleteCommit', 'CompleteAbort') "
        "or before_2.producer_id = producer_id and before_2.epoch > epoch)",
        order=["log_tp", "log_offset"],
        detail={
            "record": state(),
            "record_before": state("before."),
            "transactional_id": "transactional_id",
            "producer_id": "producer_id",
            "epoch": "epoch",
            "epoch_before": "before.epoch",
        },
    ),
)
"""One finding for each batch, marker or state with a lower epoch."""


def _sentence(e: Example) -> str:
    before = e.part("record_before")
    at = e.first_record.position
    at_before = f" at {before.position}" if before else ""
    if (lower := e.rest.get("coordinator_epoch")) is not None:
        return (
            f"the marker at {at} has coordinator epoch {printable(lower)}, but that producer had "
            f"coordinator epoch {printable(e.rest.get('coordinator_epoch_before'))}{at_before} before"
        )
    what = "the marker" if e.rest.get("marker") is not None else "the record"
    epoch, higher = printable(e.rest.get("epoch")), printable(e.rest.get("epoch_before"))
    return f"{what} at {at} {e.producer} has epoch {epoch}, but that producer had epoch {higher}{at_before} before"


WORDING = {
    "epoch-regression": AnomalyWording(
        "epoch of a producer went down",
        "epochs of producers went down",
        "A higher epoch of a producer fences the lower one. Here the log continues with the lower one.",
        _sentence,
    ),
}

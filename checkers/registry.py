"""All checkers. A new anomaly is one new file and one line here.

Importing this module does not import PySpark. The methods of a checker do.
"""

from checkers.checker import BOTH, EXTERNAL_HISTORIES, STORED_RUNS, Cause, Checker
from checkers.external_tables import BAD, GRAPHS
from harness.model.vocabulary import Premise


def _by(*causes: str) -> tuple[Cause, ...]:
    return tuple(Cause(cause) for cause in causes)


HANGING = Cause("hanging-transaction", by_operation=False)
READS = ("polls", "ends", "partitions")
LOGS = ("batches", "replicas")
JOURNALS = ("journals", "ops", "sends")
WHOLE_LOGS = (Premise.WHOLE_LOGS,)
INPUT_READS = "input reads"
"""Not a table: the final readers read each partition of the input topics to its end, so expected outputs are known."""
COMPLETE_PARTITIONS = "edges"
"""Not a table: the log of every partition of the pipeline begins at offset 0, and compaction removed nothing."""

CHECKERS: tuple[Checker, ...] = (
    Checker(
        "lost_commit",
        premises=WHOLE_LOGS,
        needs=("journals", "log"),
        rests_on=(*LOGS, "offsets"),
        family="transactions",
    ),
    Checker(
        "ghost_commit",
        premises=WHOLE_LOGS,
        needs=("journals", "log"),
        family="transactions",
    ),
    Checker(
        "hanging_transaction",
        premises=(Premise.NO_LATE_BYTES, Premise.WHOLE_LOGS),
        needs=("log", "transactions"),
        rests_on=("transactions",),
        family="log",
    ),
    Checker("zombie_write", premises=WHOLE_LOGS, family="log"),
    Checker("epoch_regression", premises=WHOLE_LOGS, needs=("log",), family="log"),
    Checker("sequence_violation", premises=WHOLE_LOGS, needs=("log",), rests_on=LOGS, family="log"),
    Checker(
        "transaction_state_violation",
        premises=WHOLE_LOGS,
        needs=("transactions",),
        rests_on=("transactions",),
        family="log",
    ),
    Checker(
        "stuck_completion",
        premises=(Premise.LEADER_ALWAYS, Premise.ONE_CLOCK, Premise.WHOLE_LOGS),
        needs=("transactions",),
        rests_on=("transactions",),
        family="log",
    ),
    Checker(
        "unmarked_partition",
        premises=WHOLE_LOGS,
        needs=("log", "transactions"),
        rests_on=(*LOGS, "transactions"),
        family="log",
    ),
    Checker("replica_divergence", premises=WHOLE_LOGS, needs=("log", "replicas"), family="log"),
    Checker("contended_id", needs=("journals",), family="log", warning=True),
    Checker(
        "undue_fencing",
        premises=(Premise.NO_LATE_BYTES, Premise.WHOLE_LOGS),
        needs=("journals", "transactions"),
        rests_on=(*JOURNALS, "transactions"),
        family="log",
        warning=True,
    ),
    Checker(
        "stalled",  # it has no query: checkers.recovery.measure finds it
        premises=(Premise.LEADER_ALWAYS, Premise.ONE_CLOCK, Premise.WHOLE_LOGS),
        needs=("log", "offsets", "transactions", "healed"),
        family="log",
        warning=True,
    ),
    Checker(
        "torn_transaction",
        premises=WHOLE_LOGS,
        rests_on=READS,
        because=(*_by("lost-commit", "ghost-commit"), HANGING),
        family="transactions",
        applies_to=BOTH,
    ),
    Checker(
        "lost_write",
        premises=WHOLE_LOGS,
        rests_on=(*READS, *LOGS),
        because=_by("lost-commit", "torn-transaction"),
        family="records",
        applies_to=BOTH,
    ),
    Checker("duplicate", needs=("journals",), family="records", applies_to=BOTH),
    Checker("inconsistent_offsets", premises=WHOLE_LOGS, family="records", applies_to=BOTH),
    Checker(
        "aborted_read",
        premises=WHOLE_LOGS,
        because=_by("ghost-commit"),
        family="records",
        applies_to=BOTH,
    ),
    Checker("precommitted_read", family="records", applies_to=BOTH),
    Checker(
        "dirty_read",
        premises=WHOLE_LOGS,
        needs=("log",),
        because=(*_by("aborted-read"), HANGING),
        family="records",
    ),
    Checker("read_above_lso", premises=WHOLE_LOGS, needs=("log",), because=(HANGING,), family="records"),
    Checker(
        "vanished",
        premises=WHOLE_LOGS,
        rests_on=READS,
        because=_by("aborted-read", "lost-write"),
        family="records",
    ),
    Checker(
        "unseen",
        premises=WHOLE_LOGS,
        rests_on=(*READS, "sends"),
        because=(*_by("lost-commit", "lost-write"), HANGING),
        family="records",
        applies_to=BOTH,
    ),
    Checker(
        "phantom",
        needs=("joined",),
        premises=WHOLE_LOGS,
        rests_on=(*READS, INPUT_READS, *LOGS, *JOURNALS, "records", "stages", "expected"),
        because=_by("aborted-read", "dirty-read", "lost-write"),
        family="records",
        applies_to=BOTH,
    ),
    Checker("corrupt", needs=("joined",), family="records"),
    Checker(
        "offset_output_mismatch",
        premises=WHOLE_LOGS,
        needs=("inputs", "log"),
        rests_on=(*JOURNALS, "claims", "expected", "offsets"),
        because=_by("lost-commit", "ghost-commit", "torn-transaction"),
        family="inputs",
    ),
    Checker(
        "reprocessed_input",
        premises=WHOLE_LOGS,
        needs=("joined", "inputs"),
        rests_on=(INPUT_READS, "expected"),
        because=_by("ghost-commit", "duplicate", "zombie-write"),
        family="inputs",
    ),
    Checker(
        "lost_input",
        premises=WHOLE_LOGS,
        needs=("inputs", "expected", "group-offsets"),
        rests_on=(*READS, *LOGS, "records", "expected", "offsets", "assignments"),
        because=(*_by("lost-commit", "torn-transaction", "offset-output-mismatch", "lost-write"), HANGING),
        family="inputs",
    ),
    Checker("group_offset_regression", premises=WHOLE_LOGS, needs=("inputs", "offsets"), family="inputs"),
    Checker(
        "stale_offset",
        premises=WHOLE_LOGS,
        needs=("journals", "inputs"),
        because=_by("lost-commit", "group-offset-regression"),
        family="inputs",
    ),
    Checker(
        "overlapping_commit",
        premises=WHOLE_LOGS,
        needs=("journals", "inputs", "offsets", "offsets-within"),
        because=_by("ghost-commit", "zombie-write"),
        family="inputs",
    ),
    Checker(
        "premature_offset",
        needs=("journals", "inputs"),
        rests_on=(*READS, *JOURNALS),
        family="inputs",
    ),
    Checker(
        "aggregate_mismatch",
        premises=WHOLE_LOGS,
        needs=("aggregate", "group-offsets"),
        rests_on=(
            *(*READS, INPUT_READS, *LOGS, COMPLETE_PARTITIONS),
            *("records", "expected", "offsets", "assignments"),
        ),
        because=_by("lost-commit", "lost-write"),
        family="inputs",
    ),
    Checker("order_violation", needs=("order",), family="order"),
    Checker(
        "poll_order",
        premises=WHOLE_LOGS,
        names=("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll"),
        rests_on=(*READS, *JOURNALS, "assignments", "claims"),
        because=_by("lost-write"),
        family="order",
        applies_to=BOTH,
    ),
    Checker(
        "send_order",
        needs=("journals",),
        names=("nonmonotonic-send", "int-nonmonotonic-send"),
        family="order",
        applies_to=BOTH,
    ),
    Checker(
        "int_send_skip", always_allowed=("int-send-skip",), family="order", applies_to=EXTERNAL_HISTORIES
    ),
    Checker(
        "cycles",
        names=tuple(graph.name for graph in GRAPHS),
        always_allowed=tuple(graph.name for graph in GRAPHS if graph.name not in BAD),
        family="cycles",
        applies_to=EXTERNAL_HISTORIES,
    ),
)
"""In the order of reports: causes first."""
STORE_CHECKERS = tuple(checker for checker in CHECKERS if checker.applies_to != EXTERNAL_HISTORIES)
HISTORY_CHECKERS = tuple(checker for checker in CHECKERS if checker.applies_to != STORED_RUNS)
INDETERMINATE = Checker("indeterminate", names=("unsettled",), applies_to=BOTH)
"""Finds no anomaly, but indeterminate operations."""
ALLOWED_WITH_SUBSCRIBE = frozenset({"poll-skip", "nonmonotonic-poll"})
"""Allowed in a history that used `subscribe`, because a rebalance moves positions."""


def checker_of(anomaly: str) -> Checker:
    """Return the checker that finds an anomaly. Raises `KeyError` if there is none."""
    for checker in (*CHECKERS, INDETERMINATE):
        if anomaly in checker.anomalies:
            return checker
    raise KeyError(anomaly)

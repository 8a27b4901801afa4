"""All reasons that a verdict may have: why a run is unknown, and why a check was left out.

`ReasonCode` is the table of all codes. `docs/reasons.md` is made of it, and `fencepost explain CODE` prints one entry.
A `Reason` is one use of a code, with a sentence about this run. Programs read `code` and `subject`, which do not
change. The wording of `text` and `remedy` may change at any time.

python -m harness.results.reasons FILE writes the page.
"""

import sys
from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Self

from msgspec import Meta, Struct
from msgspec.structs import force_setattr


class Consequence(Enum):
    """How a reason changes a verdict, and the key of `verdict.json` that lists it."""

    UNKNOWN = "The run is unknown", "unknown_because", "A run with one of these reasons is at best `unknown`."
    NOT_CHECKED = (
        "A check was left out",
        "not_checked_because",
        "The evidence for a check was missing. This does not change the verdict, which says nothing about the anomaly.",
    )
    NOT_APPLICABLE = (
        "A check does not apply",
        "not_checked_because",
        "Nothing is missing: the check is not for this kind of run.",
    )
    WARNING = "A warning", "warnings", "A warning does not change the verdict, but you should look at it."

    def __init__(self, heading: str, key: str, meaning: str) -> None:
        self.heading = heading
        self.key = key
        self.meaning = meaning


_UNKNOWN = (Consequence.UNKNOWN,)
_NOT_CHECKED = (Consequence.NOT_CHECKED,)
_EITHER = (Consequence.UNKNOWN, Consequence.NOT_CHECKED)
_NOT_APPLICABLE = (Consequence.NOT_APPLICABLE,)
_WARNING = (Consequence.WARNING,)

_LET_IT_END = "let the run finish: `fencepost replay STORE` repeats it from its seed"
_OTHER_SEED = (
    "repeat it with another `--seed`, or name the fault with `--nemesis` and a longer `--time-limit`"
)
_CLUSTER_LOGS = "read the logs of the brokers, in brokers/ of the run's folder, and repeat the run"
_WORKER_LOGS = "read its log, in workers/ of the run's folder"
_DOCTOR = "`fencepost doctor --pipeline FILE` tries it before anything is broken"
_PROGRAM_LOGS = f"{_WORKER_LOGS}; {_DOCTOR}"
_LEFT = (
    "check whether its workers hang (their logs are in workers/); if a program of yours only needs longer, write "
    "works_within_s or idle_s in its [[stage]]; a lower `--rate` leaves less to process"
)
_REPEAT = "repeat the run; if evidence is missing again, report it"
BY_ACLS = "the cluster's ACLs do not allow"
"""The beginning of each message about a request that ACLs forbid."""
ON_KAFKA = (
    "run it on Apache Kafka, for example on a local cluster: its brokers have the topic that the check needs"
)
_LOCAL = "run it on a local cluster, because Fencepost reads all logs there"


class ReasonCode(StrEnum):
    """The codes of all reasons. A reason cannot have a code that is not here.

    Each entry is the code, its consequences, its meaning, when it occurs, and what the user can do (`remedy`). A
    `Reason` may replace the remedy of its code. The remedy is empty only if nothing has to be done.
    """

    consequences: tuple[Consequence, ...]
    meaning: str
    when: str
    remedy: str

    def __new__(
        cls, code: str, consequences: tuple[Consequence, ...], meaning: str, when: str, remedy: str = ""
    ) -> Self:
        """Make a member from a row of the table."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.consequences = consequences
        member.meaning = meaning
        member.when = when
        member.remedy = remedy
        return member

    @property
    def applicable(self) -> bool:
        """Return whether the check applies to this kind of run. If it does, its evidence is missing."""
        return Consequence.NOT_APPLICABLE not in self.consequences

    # The course of the run.
    INTERRUPTED = (
        "interrupted",
        _UNKNOWN,
        "The run was interrupted. Its faults were healed and it was checked, but it did not carry out its whole plan.",
        "The run got Ctrl-C or SIGTERM before its time limit.",
        _LET_IT_END,
    )
    RUN_KILLED = (
        "run-killed",
        _UNKNOWN,
        "The run left no metadata.json. So it is not known which faults acted, and whether all inputs were processed.",
        "The run was killed before its end, or metadata.json was removed.",
        _LET_IT_END,
    )
    RUN_FAILED = (
        "run-failed",
        _UNKNOWN,
        (
            "The environment of the run failed: a broker, a proxy, a container or a tool. This says nothing "
            "about the pipeline."
        ),
        "The run ended with exit status 4, and the evidence that it left was checked later.",
        "repair what the text names; `fencepost doctor` checks the environment",
    )
    NEVER_CAME_UP = (
        "never-came-up",
        _UNKNOWN,
        "A program of your pipeline did not start, so nothing was tested.",
        "A program ended, or was not ready within `ready_within_s`, before the first input.",
        f"{_WORKER_LOGS}; if it only starts slowly, write a longer `ready_within_s`; {_DOCTOR}",
    )
    PIPELINE_FAILED = (
        "pipeline-failed",
        _UNKNOWN,
        "A program of your pipeline ended by itself so often that the run was stopped.",
        "One instance ended by itself eight times. A few ends are correct, for instance after it was fenced.",
        _PROGRAM_LOGS,
    )
    DESCRIPTION_CHANGED = (
        "description-changed",
        _UNKNOWN,
        (
            "The description of your pipeline, or a file with its functions, was changed during the run. "
            "So the expected outputs are not known any more."
        ),
        "The files differ between the start of the run and its final readers.",
        "do not change the files until the run has ended",
    )
    OTHER_CLIENT = (
        "other-client",
        _UNKNOWN,
        (
            "A worker ran another client or version than the one that `--client` names. So the run "
            "says nothing about the client that you chose."
        ),
        "The first line of a worker's journal names another client, or none.",
        "look at the first line of that journal, in journals/, and at PYTHONPATH",
    )

    # The faults and goals.
    FAULT_DID_NOT_ACT = (
        "fault-did-not-act",
        _UNKNOWN,
        "A fault was injected but had no effect, so the pipeline was not tested under this fault.",
        "The evidence of the fault says that it did not act, for instance because its target did not exist.",
        _OTHER_SEED,
    )
    FAULT_NOT_PROVEN = (
        "fault-not-proven",
        _UNKNOWN,
        "The report of a fault says that it acted, but nothing proves it.",
        "The report of the fault has no evidence, or an end that comes before its start.",
        "repeat the run; if nothing proves the fault again, report it",
    )
    FAULT_NOT_HEALED = (
        "fault-not-healed",
        _UNKNOWN,
        "A fault acted and was never healed, so the pipeline may have been checked while it was still broken.",
        "The report of the fault has no end.",
        "repeat the run; if the fault is not healed again, report it",
    )
    FAULT_NOT_PLANNED = (
        "fault-not-planned",
        _UNKNOWN,
        "A fault that you named is not in the schedule of the run.",
        "`--nemesis` named a fault for which the time limit had no room, or which the run cannot inject.",
        "choose a longer `--time-limit`, or fewer faults; docs/faults.md says what each fault needs",
    )
    FAULTS_NOT_CARRIED_OUT = (
        "faults-not-carried-out",
        _UNKNOWN,
        "The run ended before it had injected all faults of its schedule.",
        "There are fewer reports of faults than planned faults.",
        (
            "let the run finish: `fencepost replay STORE` repeats it; if another reason names a fault that was late, "
            "choose a longer `--time-limit`"
        ),
    )
    FAULTS_LATE = (
        "faults-late",
        _UNKNOWN,
        "A fault had not ended long after the time limit, so the run stopped waiting for it.",
        "A fault waited too long for its target, or took too long to heal.",
        (
            "choose a longer `--time-limit` with fewer faults; if a program of yours needs long to start, write "
            "works_within_s in its [[stage]], and the schedule reserves this time for each fault"
        ),
    )
    GOAL_NOT_MET = (
        "goal-not-met",
        _UNKNOWN,
        (
            "The run did not reach a goal, such as an aborted transaction or a zombie that came back. "
            "So a bug that needs this event would not be found."
        ),
        "Nothing in the history or in the reports of the faults shows the goal.",
        "repeat the run with a longer `--time-limit` or another `--seed`",
    )

    # The end of the run: all faults are healed, and the stages process the rest of their inputs.
    NOT_HEALED = (
        "not-healed",
        _UNKNOWN,
        "The network could not be healed at the end of the faults.",
        "A proxy refused to remove a fault, or did not answer.",
        "read the logs of the proxies in the run's folder, and repeat the run",
    )
    NOT_IN_SYNC = (
        "not-in-sync",
        _UNKNOWN,
        "The cluster did not recover after the faults: some replicas did not become in sync.",
        "After the network was healed, replicas stayed out of sync for too long.",
        _CLUSTER_LOGS,
    )
    NOT_DRAINED = (
        "not-drained",
        _UNKNOWN,
        "A stage did not process all of its inputs after the faults. An output that is missing at the end may be late.",
        "After the faults were healed, the stage made no progress for too long.",
        _LEFT,
    )
    INPUTS_LEFT = (
        "inputs-left",
        _UNKNOWN,
        "A stage stopped before it had committed the offsets of all of its inputs.",
        "The committed offsets of the stage, after its workers have ended, are before the end of its inputs.",
        _LEFT,
    )
    TRANSACTION_OPEN = (
        "transaction-open",
        _UNKNOWN,
        "A transaction was still open after the longest transaction time-out. Readers cannot go beyond it.",
        "The last stable offset of a partition is below its high watermark when all workers have ended.",
        (
            "check whether the verdict has the anomaly hanging-transaction; if not, check that transaction_timeout_s "
            "in the [[stage]] is not below the transaction.timeout.ms of the program, and read the logs of the brokers"
        ),
    )
    DID_NOT_END = (
        "did-not-end",
        _UNKNOWN,
        "A process of the run did not end after the request to end, and was killed. It did not finish its work.",
        "A worker, an observer or the feeder was alive too long after the request to end.",
        _WORKER_LOGS,
    )
    STALLED = (
        "stalled",
        (Consequence.UNKNOWN, Consequence.WARNING),
        (
            "A worker waited in one call of its client for longer than the call may take. The run is unknown "
            "if the worker had to be killed in the call. If the call returned, this is a warning."
        ),
        "The worker watches its calls. It reports the call, and the broker that should have answered.",
        (
            "read in `fencepost list clients` what is known about this version of the client, and choose another "
            "with --client NAME:VERSION; the worker's journal has a note with the time at which the call began"
        ),
    )

    # The final reads.
    READER_SHORT = (
        "reader-short",
        _UNKNOWN,
        "A reader did not reach the end of its partitions. A record that it did not read may not be lost.",
        "A final reader, or a worker that must read to the end, stopped before the end of a partition.",
        _CLUSTER_LOGS,
    )
    NO_SENTINELS = (
        "no-sentinels",
        _UNKNOWN,
        "The sentinels could not be written. So it is not known whether the final readers read everything.",
        "The record that marks the end of a partition could not be written.",
        _CLUSTER_LOGS,
    )
    ENDS_UNKNOWN = (
        "ends-unknown",
        _UNKNOWN,
        "The cluster did not return the end offsets and the leaders of its partitions.",
        "The cluster refused the request, or did not answer, after the final reads.",
        _CLUSTER_LOGS,
    )
    NOT_IN_SYNC_AT_THE_END = (
        "not-in-sync-at-the-end",
        _UNKNOWN,
        "Replicas were out of sync after the final reads, so they cannot be compared.",
        "The cluster lists replicas out of sync when the run is over.",
        _CLUSTER_LOGS,
    )
    LOGS_NOT_READ = (
        "logs-not-read",
        _UNKNOWN,
        "The logs of the brokers could not be read. They are the evidence for most checks.",
        "A broker's segment files, or the batches that were fetched from it, could not be read.",
        _CLUSTER_LOGS,
    )

    # The evidence.
    INCOMPLETE_EVIDENCE = (
        "incomplete-evidence",
        _UNKNOWN,
        (
            "A part of the evidence is missing, or the parts do not agree. If a table is not complete, a row "
            "that is missing in it is not evidence of an anomaly."
        ),
        (
            "The tables do not agree with what the run promised, or with each other. Or run.toml or metadata.json says "
            "what cannot be, such as a fault after the end of the run. Or protocol.jsonl is missing, or is not as the "
            "run wrote it."
        ),
        _REPEAT,
    )
    CONTRADICTORY_EVIDENCE = (
        "contradictory-evidence",
        _EITHER,
        (
            "The tables contain rows that no run can write: one row twice, or a partition with two leaders. No "
            "finding in them would be proof, so nothing is checked."
        ),
        "Two rows of a table, or two tables, contradict each other.",
        _REPEAT,
    )
    HISTORY_DAMAGED = (
        "history-damaged",
        _UNKNOWN,
        "The clients' own history (history.jsonl) is missing, or is not as the run wrote it.",
        "The run promised the file, and it is missing, changed or not readable.",
        "repeat the run, or restore the file from a copy",
    )
    NOTHING_READ = (
        "nothing-read",
        _UNKNOWN,
        "No operation of an external history read a record, so there is nothing to check.",
        "The history has no operation of a numbered process, or none that is `ok` and read a record.",
        "record the records that clients sent and polled in operations send, poll and txn (docs/histories.md)",
    )
    CHECK_CRASHED = (
        "check-crashed",
        _UNKNOWN,
        "A check had its evidence, but it crashed. This is a bug in Fencepost.",
        "A checker raised an error in Spark. The other checks are not affected.",
        "report it as a bug of Fencepost",
    )

    # Checks that were left out.
    PREMISE_BROKEN = (
        "premise-broken",
        (Consequence.NOT_CHECKED, Consequence.UNKNOWN),
        (
            "The check relies on something that the faults of this run, or its cluster, may break: for "
            "instance that brokers and clients have one clock. If the check is about inputs, such as "
            "lost-input, the run is unknown."
        ),
        "The run was planned with faults, or on a cluster, that break what the check relies on.",
        "repeat the run without the faults that break this",
    )
    NO_GROUP_OFFSETS = (
        "no-group-offsets",
        (Consequence.NOT_CHECKED, Consequence.UNKNOWN),
        "A stage keeps its offsets outside Kafka, so it is not known what became of its inputs. The run is unknown.",
        "A stage has no consumer group that commits offsets, and no journal says what it processed.",
        (
            "write the `group` of the stage if it has one; else run a pipeline that commits the offsets of its group "
            "to Kafka"
        ),
    )
    NO_LOGS = (
        "no-logs",
        _NOT_CHECKED,
        "The check needs the logs of the brokers, and this history has none.",
        "The run stored no logs of brokers.",
        _LOCAL,
    )
    NO_OFFSETS_LOG = (
        "no-offsets-log",
        _NOT_CHECKED,
        "The check needs the log of __consumer_offsets, and this history has none.",
        "The cluster did not return the log of __consumer_offsets.",
        _LOCAL,
    )
    NO_TRANSACTIONS_LOG = (
        "no-transactions-log",
        _NOT_CHECKED,
        "The check needs the whole log of __transaction_state, and this history does not have it.",
        "The log of at least one partition of __transaction_state is missing.",
        _LOCAL,
    )
    LOG_REFUSED = (
        "log-refused",
        _NOT_CHECKED,
        "The cluster did not give the log of an internal topic.",
        (
            "The user that Fencepost connects as may not read __consumer_offsets or __transaction_state, or the "
            "cluster has no such topic. The reason says what was asked and what was answered."
        ),
        (
            "if ACLs forbid it, allow this user Read and Describe on the topic that the reason names; if the cluster "
            "has no such topic, run the pipeline on Apache Kafka"
        ),
    )
    ONE_REPLICA = (
        "one-replica",
        _NOT_CHECKED,
        "The check compares replicas, and this history has the log of one replica of each partition.",
        "Only the leaders' logs were fetched, or the topics have one replica.",
        _LOCAL,
    )
    NO_LAST_HEAL = (
        "no-last-heal",
        _NOT_CHECKED,
        "The check looks at the time after the last fault was healed, and this time is not known.",
        "The run metadata does not say when the last fault was healed.",
        _LET_IT_END,
    )
    CLOCK_DRIFT = (
        "clock-drift",
        _NOT_CHECKED,
        (
            "The clock of this machine moved during the run, or it is not known whether it did. Times of "
            "brokers are not compared with times of clients."
        ),
        "The wall clock moved against the monotonic clock, or the run metadata does not say when the run began.",
        "repeat the run on a machine whose clock is not changed during the run",
    )
    NO_EXPECTATION = (
        "no-expectation",
        _NOT_CHECKED,
        "The expected outputs of the inputs are not known, so missing or duplicate outputs cannot be detected.",
        "The pipeline's file has no [expect], or the workload does not define its expected outputs.",
        "add [expect] to the pipeline's file, or run a workload that defines its expected outputs",
    )
    FINAL_ALONE = (
        "final-alone",
        _NOT_CHECKED,
        "Only the last record of each key is checked, by aggregate-mismatch.",
        "The pipeline's file names the output under `final`.",
        "look at the result of aggregate-mismatch; remove the topic from `final` to check each of its records",
    )
    NO_OFFSETS_WITHIN = (
        "no-offsets-within",
        _NOT_CHECKED,
        "The check needs offsets that were committed within transactions, and this history has none.",
        "No transactional offset commit is in the log of __consumer_offsets.",
        "run a pipeline that commits its offsets in its transactions (`sendOffsetsToTransaction`)",
    )
    OFFSET_COMMITS_NOT_NAMED = (
        "offset-commits-not-named",
        _NOT_CHECKED,
        (
            "A lost offset commit would not be found, because the offset commits do not name their operations, "
            "or some may be missing. The rest of lost-commit is checked."
        ),
        "The log of __consumer_offsets is compacted or missing, or a transactional commit names no operation.",
        _LOCAL,
    )
    OFFSETS_ELSEWHERE = (
        "offsets-elsewhere",
        _NOT_CHECKED,
        "No output was compared with the offsets of its transaction. The rest of offset-output-mismatch is checked.",
        (
            "The stages keep no journals, and they keep their offsets elsewhere, pass records on to "
            "themselves, or write nothing that is joined to one input."
        ),
        "run a pipeline that commits its offsets in its transactions, with outputs that are joined to their inputs",
    )
    TOPICS_NOT_NAMED = (
        "topics-not-named",
        _NOT_CHECKED,
        "The contents of some topics were not checked, because the pipeline's file does not name them.",
        "A program of your pipeline created more topics, such as the changelogs of Kafka Streams.",
        "name the topics in the pipeline's file if their contents matter",
    )
    TRANSACTIONS_NOT_IDENTIFIED = (
        "transactions-not-identified",
        _NOT_CHECKED,
        "The markers of some transactions could not be identified, so these transactions were checked in part only.",
        (
            "The pipeline keeps no journals, and logs of partitions that the transactions wrote to are "
            "missing or ambiguous."
        ),
        _LOCAL,
    )
    EXTERNAL_HISTORY = (
        "external-history",
        _NOT_CHECKED,
        "The check needs markers, inputs or final readers, and an external history has none of them.",
        "An external history is checked, but the check needs a stored run.",
        "run the pipeline under Fencepost (`fencepost run --pipeline FILE`) to have it checked",
    )
    GRAPH_TOO_LARGE = (
        "graph-too-large",
        _NOT_CHECKED,
        "The dependency graph is too large to search all of it for this kind of cycle.",
        "Edges that go back in time connect millions of operations.",
        "check a shorter history",
    )

    # Checks that do not apply.
    EXTERNAL_ONLY = (
        "external-only",
        _NOT_APPLICABLE,
        "Fencepost searches for the anomaly in external histories only.",
        "A stored run without a clients' history is checked.",
    )
    NO_ORDER = (
        "no-order",
        _NOT_APPLICABLE,
        "The workload promises no order, so no order can be violated.",
        "No stage of the pipeline is `ordered`.",
    )
    ORDER_NOT_KNOWN = (
        "order-not-known",
        _NOT_CHECKED,
        "The order of some outputs was not checked, or only in part. The order of the others is checked.",
        (
            "Outputs have no key, their topic got more partitions during the run, or are made from records of a "
            "topic that a stage without an order writes."
        ),
        "write a key into each output whose order matters",
    )
    NO_AGGREGATE = (
        "no-aggregate",
        _NOT_APPLICABLE,
        "The workload writes no aggregate, so there is no sum to compare.",
        "No output of the pipeline is a sum, or the last record of a key.",
    )
    NO_INPUTS = (
        "no-inputs",
        _NOT_APPLICABLE,
        "No input of this workload has an expected output, so no input can be lost.",
        "All stages of the workload send and poll independently of their inputs.",
    )
    NO_TRANSACTIONS = (
        "no-transactions",
        _NOT_APPLICABLE,
        "The workload has no transactions.",
        "No stage of the pipeline writes in transactions.",
    )
    NO_JOURNALS = (
        "no-journals",
        _NOT_APPLICABLE,
        "The check needs the journals of the workers, and your programs keep none.",
        "The run is one of `--pipeline`, or was checked with `--blind`.",
    )
    NONE_WITHIN = (
        "none-within",
        _NOT_APPLICABLE,
        "The workload commits no offset within a transaction, so there is none to check.",
        "No stage of the pipeline commits its offsets in its transactions.",
    )

    # Warnings.
    UNEXPECTED_END = (
        "unexpected-end",
        _WARNING,
        "A worker ended by itself, and was replaced.",
        "A process ended, and no fault had killed it.",
        _WORKER_LOGS,
    )
    UNEXPECTED_ERROR = (
        "unexpected-error",
        _WARNING,
        "A worker got an error that it does not know. It recorded the outcome `info` and went on.",
        "The client raised an error that is not in the table of errors (docs/clients.md).",
        _WORKER_LOGS,
    )
    DID_NOT_STOP = (
        "did-not-stop",
        _WARNING,
        "A program of your pipeline did not end after its stop signal, and was killed. It had finished its work.",
        "The program was alive for longer than `stop_within_s` after the signal.",
        "set another `stop` signal or a longer `stop_within_s` in the pipeline's file",
    )
    MESSAGES_NOT_DECODED = (
        "messages-not-decoded",
        _WARNING,
        "Some of Kafka's messages passed the protocol proxy unchanged, and no rule could act on them.",
        "The proxy cannot decode a message: its version is not known to this version of Kafka, or it is damaged.",
        (
            "choose with `--kafka` a version of Kafka that knows the messages of your client; if it should know "
            "them, report it"
        ),
    )


CODES: Mapping[str, ReasonCode] = {code.value: code for code in ReasonCode}
"""The table by code."""


class Reason(Struct, frozen=True, omit_defaults=True):
    """Why a run is unknown or a check was skipped, or a warning. docs/reasons.md lists the codes."""

    code: Annotated[ReasonCode, Meta(description="one of [the codes](reasons.md)")]
    text: Annotated[str, Meta(description="a sentence without a full stop")]
    subject: Annotated[
        str, Meta(description="what the reason concerns: a partition, a worker, a fault, a table, an anomaly")
    ] = ""
    remedy: Annotated[str, Meta(description="what the user can do. By default the remedy of the code")] = ""
    because: Annotated[
        str,
        Meta(
            description="the reason in `unknown_because` from which this one follows: its `subject`, or its `code` if "
            "it has no subject. This one comes after it"
        ),
    ] = ""
    rule: Annotated[
        str,
        Meta(
            description="the name of the rule in the code that found it, for developers; empty: no rule found it"
        ),
    ] = ""

    def __post_init__(self) -> None:
        force_setattr(self, "remedy", self.remedy or self.code.remedy)

    @property
    def key(self) -> str:
        """How the reasons that follow from this one name it in `because`."""
        return self.subject or self.code.value


def by_cause(reasons: Sequence[Reason]) -> list[tuple[Reason, list[Reason]]]:
    """Group reasons by their first causes.

    Returns:
        The reasons that follow from no other one, in their order, each with all that follows from it.
    """
    by_key: dict[str, Reason] = {}
    for reason in reasons:
        by_key.setdefault(reason.key, reason)

    def first_cause(reason: Reason) -> Reason:
        chain = [reason]
        while (cause := by_key.get(chain[-1].because)) is not None:
            if cause in chain:
                return reason  # reasons that follow from each other have no first cause
            chain.append(cause)
        return chain[-1]

    groups: dict[Reason, list[Reason]] = {}
    for reason in reasons:
        if first_cause(reason) == reason:
            groups.setdefault(reason, [])
    for reason in reasons:
        if (cause := first_cause(reason)) != reason:
            groups[cause].append(reason)
    return list(groups.items())


KILLED = Reason(
    ReasonCode.RUN_KILLED,
    "there is no metadata.json: the run was killed before its end, or the file was removed; the run is checked "
    "without it",
)
EXTERNAL_ONLY = Reason(ReasonCode.EXTERNAL_ONLY, "applies only to external histories")
NO_ORDER = Reason(ReasonCode.NO_ORDER, "the workload promises no order")
NO_AGGREGATE = Reason(ReasonCode.NO_AGGREGATE, "the workload writes no aggregate")
NO_INPUTS = Reason(ReasonCode.NO_INPUTS, "no input of this workload has an expected output")
NO_TRANSACTIONS = Reason(ReasonCode.NO_TRANSACTIONS, "the workload has no transactions")
NO_JOURNALS = Reason(
    ReasonCode.NO_JOURNALS,
    "the pipeline keeps no journals, so it is not known what its clients read and which answers they got",
)
NO_OFFSETS_WITHIN = Reason(ReasonCode.NONE_WITHIN, "the workload commits no offset within a transaction")


def explain(code: ReasonCode) -> str:
    """Return one entry of the table, as Markdown."""
    paragraphs = [
        f"# `{code}`",
        f"**{code.meaning}**",
        f"- **When:** {code.when}\n- **What to do:** {remedy_of(code)}\n- **In `verdict.json`:** {_keys(code)}",
    ]
    return "\n\n".join(paragraphs) + "\n"


def page() -> str:
    """Return the content of `docs/reasons.md`: all entries."""
    paragraphs = [
        "# Reasons",
        (
            "A verdict says in `unknown_because` why a run is `unknown`, and in `not_checked_because` why a "
            "check was left out. Each reason has a code. This page is made from `harness/results/reasons.py` by "
            "`make docs`; `fencepost explain CODE` prints one entry."
        ),
    ]
    for consequence in Consequence:
        codes = [code for code in ReasonCode if code.consequences[0] is consequence]
        paragraphs += [f"## {consequence.heading}", consequence.meaning]
        paragraphs += ["\n".join(f"- [`{code}`](#{code})" for code in codes)]
        paragraphs += [f"##{explain(code).strip()}" for code in codes]
    return "\n\n".join(paragraphs) + "\n"


def remedy_of(code: ReasonCode) -> str:
    """Return what the user can do, as a sentence."""
    remedy = code.remedy
    return f"{remedy[:1].upper()}{remedy[1:]}." if remedy else "Nothing has to be done."


def _keys(code: ReasonCode) -> str:
    return " or ".join(f"`{consequence.key}`" for consequence in code.consequences)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")

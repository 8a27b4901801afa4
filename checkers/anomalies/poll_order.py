"""Order of polls: a consumer skipped records, or went back, in a log whose order is known.

    poll-skip              the next poll of a consumer began beyond records that it had not received
    nonmonotonic-poll      the next poll of a consumer began at or below a record that it had received
    int-poll-skip          an operation received two records, but not the records between them
    int-nonmonotonic-poll  an operation received a record at or below the one before it

`poll-skip` and `nonmonotonic-poll` compare the first record of a key that an operation received with the last record of
that key that the process received before. That record is from the last ok operation that polled the key. If the
distance is more than one, the consumer skipped records. If it is less than one, the consumer went back, or repeated a
record. `assign` and `subscribe` forget the keys that they do not name. `int-poll-skip` and `int-nonmonotonic-poll`
compare neighbours inside one operation, for keys without a rebalance during the operation.

In a stored run, the log is what the final read-committed reader received, and a partition counts once in each
operation. Four things are not checked there: steps across a rebalance; the first poll after a rebalance, because the
rebalance happened in it; steps across an operation of the same consumer that did not commit, because the consumer must
go back to the committed offset after it; and skips inside a poll that goes back.

A skip is a consequence of `lost-write` if every skipped record is a lost write: the consumer could not receive it. In a
stored run, this happens in the clients' history only, because the final reader did not receive such a record either.

Illegal because a consumer reads a partition from its position onwards: each record once, in the order of the offsets.
Under `subscribe`, a rebalance moves positions between operations, so the first two anomalies are allowed there.
Evidence: the offsets of all polls, and of the sends that must have committed. They give each value an index without
the gaps in the offsets. In a stored run: the polls of each process, its assignments and the end of its operations.

    log of x: 1 at offset 4, 2 at offset 5, 3 at offset 8
    P0  poll x: 1          ok
    P0  poll x: 3          ok      <- poll-skip, over 2
    P0  poll x: 2          ok      <- nonmonotonic-poll

Without journals: only the run's own observers are checked.

Blind spot: a record has no index if no consumer received it and its sender did not get its offset. In a stored run, a
record that the final reader did not receive hides a skip inside the poll that holds it.
Reference: Jepsen's Kafka checker, `poll-skip`, `nonmonotonic-poll`, `int-poll-skip`, `int-nonmonotonic-poll`.
"""

from pyspark.sql import DataFrame

from checkers.external_tables import BACK, SKIPS, ExternalTables
from checkers.findings import (
    NO_OPERATIONS,
    AnomalyWording,
    Rule,
    jump_findings,
    operation,
    reader,
    record_position,
)
from harness.common.wording import printable
from harness.results.example import Example


def _rule(name: str, move: str, inside: bool) -> Rule:
    return Rule(
        name,
        "reader_steps",
        where=f"move = '{move}' and {'' if inside else 'not '}coalesce(inside, false)",
        order=["op", "tp", "n"],
        absence="true",
        detail={
            "records": f"array({record_position('tp', 'before.offset')}, {record_position()})",
            **({"skipped": "skipped"} if move == "skip" else {}),
            "reader": reader(),
            **({} if inside else {"operations": f"array({operation('before.op')})"}),
        },
    )


RULES = (
    _rule("poll-skip", "skip", inside=False),
    _rule("nonmonotonic-poll", "back", inside=False),
    _rule("int-poll-skip", "skip", inside=True),
    _rule("int-nonmonotonic-poll", "back", inside=True),
)
"""One finding for each step from one operation to the next, and for each operation and partition with a step inside."""


def poll_order_external(tables: ExternalTables) -> DataFrame:
    """Return one row for each operation and key, or for each pair of neighbours."""
    jumps = tables.jumps.where("polled and not if(inside, rebalanced, forgotten)")
    return jump_findings(
        jumps,
        f"case when inside and {SKIPS} then 'int-poll-skip' when inside and {BACK} then 'int-nonmonotonic-poll' "
        f"when {SKIPS} then 'poll-skip' when {BACK} then 'nonmonotonic-poll' end",
        # By this operation the finding is joined to the `lost-write` of the records that it skipped.
        ops=f"if({SKIPS} and lost_writer is not null, array(lost_writer), {NO_OPERATIONS})",
    )


def _skip(e: Example) -> str:
    first, second = e.two_records
    count = e.rest.get("skipped")
    skipped = "" if count is None else f" and skipped {printable(count)} between them"
    return f"{e.reader} went from {first} to {second}{skipped}"


def _back(e: Example) -> str:
    first, second = e.two_records
    return f"{e.reader} received {first}, and then {second}"


WORDING = {
    "poll-skip": AnomalyWording(
        "step skipped records",
        "steps skipped records",
        "From one poll to the next, a consumer did not receive all records between two records of a partition.",
        _skip,
    ),
    "nonmonotonic-poll": AnomalyWording(
        "step went back in the log",
        "steps went back in the log",
        "From one poll to the next, a consumer went back, though nothing had moved its position.",
        _back,
    ),
    "int-poll-skip": AnomalyWording(
        "step inside one poll skipped records",
        "steps inside one poll skipped records",
        "Inside one poll, a consumer did not receive all records between two records of a partition.",
        _skip,
    ),
    "int-nonmonotonic-poll": AnomalyWording(
        "step inside one poll went back in the log",
        "steps inside one poll went back in the log",
        "Inside one poll, a consumer received records in another order than the order of the log.",
        _back,
    ),
}

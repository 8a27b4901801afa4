"""Order of polls: a consumer skipped over records, or went back, in a log whose order is known.

    poll-skip              a consumer's next poll began beyond records that it had not been given
    nonmonotonic-poll      a consumer's next poll began at or below what it had been given
    int-poll-skip          an operation was given records, and not those between them
    int-nonmonotonic-poll  an operation was given a record at or below the one before it

`poll-skip` and `nonmonotonic-poll` compare the first record of a key that an operation was given with the
last one that the process was given before, by its last ok operation that polled the key: more than one on
is a skip, less than one on (a repeat too) goes back. `assign` and `subscribe` forget the keys that they do
not name. `int-poll-skip` and `int-nonmonotonic-poll` compare neighbours inside one operation, of keys that
no rebalance touched meanwhile.

In a stored run the log is what the final read-committed reader was given, and inside an operation a
partition counts once. Nothing is said across a rebalance, nor of the first poll after one, in which it
happened; nor across an operation of the consumer's own that did not commit, after which it must go back to
what is committed; nor of skips inside a poll that goes back.

Illegal because a consumer reads a partition from its position onwards: each record once, in the order of
the offsets. Under `subscribe` a rebalance moves positions between operations, so there the first two are
allowed.
Evidence: the offsets of all polls, and of sends that must have committed, which give each value its
index; gaps in the offsets vanish. In a stored run the polls of each process, its assignments and the end of
its operations.

    log of x: 1 at offset 4, 2 at offset 5, 3 at offset 8
    P0  poll x: 1          ok
    P0  poll x: 3          ok      <- poll-skip, over 2
    P0  poll x: 2          ok      <- nonmonotonic-poll

Without journals: of the run's own observers alone.

Blind spot: records that nobody was ever given, and whose offset no sender was told, have no index. In a
stored run a record that the final reader was not given hides a skip inside the poll that holds it.
Reference: Jepsen's Kafka checker, `poll-skip`, `nonmonotonic-poll`, `int-poll-skip`, `int-nonmonotonic-poll`.
"""

from pyspark.sql import DataFrame

from checkers.external.jumps import BACK, SKIPS
from checkers.external.tables import ExternalTables
from checkers.findings.build import jump_findings, operation, reader, record_place
from checkers.findings.rules import Rule
from checkers.findings.wording import AnomalyWording
from harness.results.example import Example
from harness.results.wording import printable


def _rule(name: str, move: str, inside: bool) -> Rule:
    return Rule(
        name,
        "reader_steps",
        where=f"move = '{move}' and {'' if inside else 'not '}coalesce(inside, false)",
        order=["op", "tp", "n"],
        ops="array(before.op, op)",
        absence="true",
        detail={
            "records": f"array({record_place('tp', 'before.offset')}, {record_place()})",
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
"""One finding for each step; inside an operation, for each partition of it."""


def poll_order_external(t: ExternalTables) -> DataFrame:
    """One row for each operation and key, or for each pair of neighbours."""
    jumps = t.jumps.where("polled and not if(inside, rebalanced, forgotten)")
    return jump_findings(
        jumps,
        f"case when inside and {SKIPS} then 'int-poll-skip' when inside and {BACK} then 'int-nonmonotonic-poll' "
        f"when {SKIPS} then 'poll-skip' when {BACK} then 'nonmonotonic-poll' end",
    )


def _skip(e: Example) -> str:
    before, here = e.two_records
    count = e.rest.get("skipped")
    over = "" if count is None else f" and skipped {printable(count)} between them"
    return f"{e.reader} went from {before} to {here}{over}"


def _back(e: Example) -> str:
    before, here = e.two_records
    return f"{e.reader} was given {before}, and then {here}"


WORDING = {
    "poll-skip": AnomalyWording(
        "step skipped visible records",
        "steps skipped visible records",
        "From one poll to the next a consumer left out records that the final reader was given.",
        _skip,
    ),
    "nonmonotonic-poll": AnomalyWording(
        "step went back in the log",
        "steps went back in the log",
        "From one poll to the next a consumer went back, though nothing had moved its position.",
        _back,
    ),
    "int-poll-skip": AnomalyWording(
        "step inside one poll skipped visible records",
        "steps inside one poll skipped visible records",
        "Inside one poll a consumer left out records that the final reader was given.",
        _skip,
    ),
    "int-nonmonotonic-poll": AnomalyWording(
        "step inside one poll went back in the log",
        "steps inside one poll went back in the log",
        "Inside one poll a consumer was given records in another order than the log has them.",
        _back,
    ),
}

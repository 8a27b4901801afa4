"""What each anomaly means, in a sentence for the reader of a report, and as a subject to count.

A name that is not here is shown as it is: a new anomaly needs nothing in this room.
"""

from dataclasses import dataclass

from reports.words import number


@dataclass(frozen=True)
class Meaning:
    """`one` and `many` complete "1 ..." and "3 ..."; `says` explains the anomaly."""

    one: str
    many: str
    says: str


MEANINGS = {
    "lost-write": Meaning(
        "acknowledged record was lost",
        "acknowledged records were lost",
        "A record was acknowledged, and the log, or the final reader that came past its place, lacks it.",
    ),
    "duplicate": Meaning(
        "value stands in the log more than once",
        "values stand in the log more than once",
        "One attempt to send names one value; here one value stands at more than one offset.",
    ),
    "aborted-read": Meaning(
        "record of an aborted transaction was read",
        "records of aborted transactions were read",
        "A consumer that was promised committed records was given one whose transaction failed (Adya's G1a).",
    ),
    "dirty-read": Meaning(
        "delivery of a record came before its commit, or without",
        "deliveries of records came before their commit, or without",
        "A consumer that was promised committed records was given one that the brokers' log calls aborted or "
        "open, or that was not committed yet.",
    ),
    "torn-transaction": Meaning(
        "transaction was torn apart",
        "transactions were torn apart",
        "The records of one transaction must all be committed or all be aborted. These were not.",
    ),
    "lost-commit": Meaning(
        "acknowledged commit was lost",
        "acknowledged commits were lost",
        "A worker was told that its commit had succeeded, and the brokers' log says otherwise.",
    ),
    "ghost-commit": Meaning(
        "transaction was committed that nobody committed",
        "transactions were committed that nobody committed",
        "The brokers' log says committed, though the commit was never asked for, or was reported as failed.",
    ),
    "offset-output-mismatch": Meaning(
        "disagreement between outputs and offsets",
        "disagreements between outputs and offsets",
        "Outputs and input offsets of one transaction stand or fall together, for the same inputs.",
    ),
    "reprocessed-input": Meaning(
        "output was made twice for one input",
        "outputs were made twice for one input",
        "One input led to more visible outputs than the workload expects of it.",
    ),
    "lost-input": Meaning(
        "output of an input is missing",
        "outputs of inputs are missing",
        "The group's committed offset went past an input, and an output that it must lead to is not there.",
    ),
    "group-offset-regression": Meaning(
        "committed offset went back",
        "committed offsets went back",
        "A group's committed offset of a partition went down: whoever starts there repeats inputs.",
    ),
    "phantom": Meaning(
        "record came from nowhere",
        "records came from nowhere",
        "A visible record that nobody had announced to send, or that names no visible input.",
    ),
    "corrupt": Meaning(
        "record is not what was sent",
        "records are not what was sent",
        "Key, value or headers differ from what was sent, or from what the workload makes of the inputs.",
    ),
    "unseen": Meaning(
        "acknowledged record was never delivered",
        "acknowledged records were never delivered",
        "The final reader came to the end, and nobody was ever given this acknowledged record.",
    ),
    "zombie-write": Meaning(
        "write of a fenced producer took effect",
        "writes of fenced producers took effect",
        "A producer that another had replaced must be fenced off. Its write was committed all the same.",
    ),
    "hanging-transaction": Meaning(
        "batch of records was left open for ever",
        "batches of records were left open for ever",
        "A record is still open after everything has come to rest: readers of its partition stop there.",
    ),
    "epoch-regression": Meaning(
        "epoch of a producer went down",
        "epochs of producers went down",
        "A higher epoch fences off the lower one. Here the log goes on with the lower one.",
    ),
    "sequence-violation": Meaning(
        "batch does not join the one before it",
        "batches do not join the ones before them",
        "A producer numbers its records, and a broker takes only the next number. Here some are missing, or "
        "stand in the log twice.",
    ),
    "transaction-state-violation": Meaning(
        "step of a transaction coordinator is not allowed",
        "steps of transaction coordinators are not allowed",
        "The transaction log shows a state that may not follow the one before it.",
    ),
    "stuck-completion": Meaning(
        "transaction was decided and never finished",
        "transactions were decided and never finished",
        "The coordinator had decided to commit or to abort, and has not finished it after everything came to "
        "rest: nobody can use this transactional id.",
    ),
    "unmarked-partition": Meaning(
        "partition lacks the marker of a completed transaction",
        "partitions lack the markers of completed transactions",
        "A transaction is complete when each of its partitions has a marker. Here one has too few: its "
        "records stay open, or share the fate of the next transaction.",
    ),
    "replica-divergence": Meaning(
        "place in the log differs from replica to replica",
        "places in the log differ from replica to replica",
        "What is committed is the same on every replica. Here it is not: what is read depends on who leads.",
    ),
    "contended-id": Meaning(
        "transactional id was taken back by one who had lost it",
        "transactional ids were taken back by those who had lost them",
        "Two live workers have one transactional id, and fence each other in turn.",
    ),
    "undue-fencing": Meaning(
        "producer was fenced for nothing",
        "producers were fenced for nothing",
        "A producer was told that it is fenced, though nobody had taken its transactional id and no time-out "
        "had passed.",
    ),
    "stalled": Meaning(
        "group stood still after the last heal",
        "groups stood still after the last heal",
        "There were inputs, and a worker, and all faults were healed; and nothing was committed for longer "
        "than any time-out explains.",
    ),
    "read-above-lso": Meaning(
        "record was read above an open transaction",
        "records were read above an open transaction",
        "A consumer that was promised committed records went past a transaction that was still open.",
    ),
    "vanished": Meaning(
        "record was read and is gone",
        "records were read and are gone",
        "A consumer was given a record that the final reader, which came past its place, was not given.",
    ),
    "inconsistent-offsets": Meaning(
        "offset was seen with different values",
        "offsets were seen with different values",
        "An offset names one record, for ever. Here two witnesses were told of different ones.",
    ),
    "precommitted-read": Meaning(
        "transaction read what it had itself sent",
        "transactions read what they had themselves sent",
        "A transaction was given its own record before it was committed: Kafka has no read-your-writes.",
    ),
    "poll-skip": Meaning(
        "step skipped visible records",
        "steps skipped visible records",
        "From one poll to the next a consumer left out records that the final reader was given.",
    ),
    "nonmonotonic-poll": Meaning(
        "step went back in the log",
        "steps went back in the log",
        "From one poll to the next a consumer went back, though nothing had moved its position.",
    ),
    "int-poll-skip": Meaning(
        "step inside one poll skipped visible records",
        "steps inside one poll skipped visible records",
        "Inside one poll a consumer left out records that the final reader was given.",
    ),
    "int-nonmonotonic-poll": Meaning(
        "step inside one poll went back in the log",
        "steps inside one poll went back in the log",
        "Inside one poll a consumer was given records in another order than the log has them.",
    ),
    "nonmonotonic-send": Meaning(
        "record stands below the one that was sent before it",
        "records stand below those that were sent before them",
        "A producer's records stand in the log in another order than it sent them.",
    ),
    "int-nonmonotonic-send": Meaning(
        "record stands below the one that its operation sent before it",
        "records stand below those that their operations sent before them",
        "The records of one operation stand in the log in another order than it sent them.",
    ),
    "stale-offset": Meaning(
        "worker began below what was committed",
        "times a worker began below what was committed",
        "A worker took a partition over below an offset whose commit had succeeded before.",
    ),
    "overlapping-commit": Meaning(
        "pair of transactions committed the same inputs",
        "pairs of transactions committed the same inputs",
        "Two committed transactions of one group stepped over intersecting ranges of input.",
    ),
    "premature-offset": Meaning(
        "offset was committed too early",
        "offsets were committed too early",
        "An offset was committed beyond inputs that its process had never been given.",
    ),
    "aggregate-mismatch": Meaning(
        "sum does not fit its inputs",
        "sums do not fit their inputs",
        "The last sum of a key is not what the inputs below the committed offset add up to.",
    ),
    "order-violation": Meaning(
        "output stands out of order",
        "outputs stand out of order",
        "Outputs of one key stand in another order than their inputs, where order is promised.",
    ),
}
SPINE = tuple(MEANINGS)
"""The anomalies that every run of this version is checked for."""


def meaning(anomaly: str) -> str:
    """The explanation, or a plain sentence for a name that is not known here."""
    known = MEANINGS.get(anomaly)
    return known.says if known else "The checker of this name found a contradiction in the evidence."


def counted(anomaly: str, count: int) -> str:
    """`3 inputs took effect twice`."""
    known = MEANINGS.get(anomaly)
    if known is None:
        return f"{anomaly} was found {'once' if count == 1 else number(count) + ' times'}"
    return f"{number(count)} {known.one if count == 1 else known.many}"

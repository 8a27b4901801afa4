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
        "record was read before or without its commit",
        "records were read before or without their commit",
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
        "transaction was left open for ever",
        "transactions were left open for ever",
        "A record is still open after everything has come to rest: readers of its partition stop there.",
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

"""What has to happen in a run, or the run proves too little."""

from dataclasses import dataclass

from harness.model.vocabulary import Exercise, outputs_in


@dataclass(frozen=True)
class Goal:
    """Something that has to happen in a run, or the run proves too little.

    `counted` is a key of the verdict's coverage: at least one must have been counted. `waived` says why it is not
    asked for in this run; then it is listed as not exercised and changes nothing.
    """

    name: str
    counted: str
    text: str  # what did not happen: "no transaction was aborted"
    remedy: str
    waived: str = ""


def abort_goal(abort_share: float) -> Goal:
    """That a transaction was aborted: without one nobody can say that aborted records stay hidden."""
    return Goal(
        name="aborted-read",
        counted="aborted",
        text="no transaction was aborted",
        remedy="a longer --time-limit or a higher abort-share helps",
        waived="" if abort_share > 0 else "no transaction was to be aborted: abort-share is 0",
    )


def transactions_goal() -> Goal:
    """That a pipeline that promises transactions has committed some."""
    return Goal(
        name="transactions",
        counted="committed",
        text="the pipeline promises exactly-once, and none of its transactions was seen to commit",
        remedy="if a stage needs none, say transactions = false in its [[stage]]; else look at its log in workers/",
    )


def optional_abort_goal() -> Goal:
    """That a transaction of a user's program was aborted; if none was, that is told, and the run may be valid."""
    text = (
        "none of the pipeline's transactions was aborted, so nothing shows that aborted outputs stay hidden"
    )
    remedy = "--nemesis kill-instance@ongoing strikes while one is open"
    return Goal("aborted-read", "aborted", text, remedy, waived=f"{text}: {remedy}")


def output_goal(topic: str, text: str) -> Goal:
    """That something was written to a topic. `text`: what is said if nothing was."""
    return Goal(
        name=f"outputs in {topic}",
        counted=outputs_in(topic),
        text=text,
        remedy="a longer --time-limit or a higher --rate helps",
    )


def mixed_goals() -> tuple[Goal, ...]:
    """That transactions were given what others had written, and that keys came and went."""
    remedy = "a longer --time-limit helps"
    return (
        Goal(
            name="read within a transaction",
            counted=Exercise.READ_WITHIN.value,
            text="no committed transaction was given a record of another one",
            remedy=remedy,
        ),
        Goal(name="retired key", counted=Exercise.GIVEN_UP.value, text="no key has retired", remedy=remedy),
    )


def several_topics_goal() -> Goal:
    """That a transaction covered inputs of several topics."""
    return Goal(
        name="several-topics",
        counted=Exercise.SEVERAL_TOPICS.value,
        text="no transaction covered inputs of more than one topic",
        remedy="a higher --rate or a larger --txn-size helps",
    )

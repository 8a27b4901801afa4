"""Goals: events that must occur in a run, because without them the run does not test enough."""

from dataclasses import dataclass

from harness.model.vocabulary import Exercise, outputs_in


@dataclass(frozen=True)
class Goal:
    """An event that must occur in a run. If it does not, the run is unknown."""

    name: str
    counted: str  # a key of the verdict's coverage, which must be at least 1
    text: str  # what did not happen: "no transaction was aborted"
    remedy: str
    waived: str = ""  # why this run need not reach the goal: then it is only listed under `not_exercised`


def abort_goal(abort_share: float) -> Goal:
    """Require an aborted transaction: without one, nothing shows that aborted records stay hidden."""
    return Goal(
        name="aborted-read",
        counted="aborted",
        text="no transaction was aborted",
        remedy="a longer --time-limit or a higher abort-share helps",
        waived="" if abort_share > 0 else "no transaction is aborted on purpose: abort-share is 0",
    )


def transactions_goal() -> Goal:
    """Require a committed transaction of a custom pipeline that promises exactly-once."""
    return Goal(
        name="transactions",
        counted="committed",
        text="the pipeline promises exactly-once, and none of its transactions was seen to commit",
        remedy="if a stage needs none, set transactions = false in its [[stage]]; else read its log in workers/",
    )


def optional_abort_goal() -> Goal:
    """Look for an aborted transaction of a custom pipeline. A run without one may be valid, but its verdict says so."""
    text = (
        "none of the pipeline's transactions was aborted, so nothing shows that aborted outputs stay hidden"
    )
    remedy = "--nemesis kill-instance@ongoing kills an instance while a transaction is open"
    return Goal("aborted-read", "aborted", text, remedy, waived=f"{text}: {remedy}")


def output_goal(topic: str, text: str) -> Goal:
    """Require an output in a topic. `text` is the sentence for a run without one."""
    return Goal(
        name=f"outputs in {topic}",
        counted=outputs_in(topic),
        text=text,
        remedy="a longer --time-limit or a higher --rate helps",
    )


def independent_stage_goals() -> tuple[Goal, ...]:
    """Return the goals of a workload with stages that send and poll independently.

    A transaction must poll a record of another transaction, and a key must be retired.
    """
    remedy = "a longer --time-limit helps"
    return (
        Goal(
            name="read within a transaction",
            counted=Exercise.READ_WITHIN.value,
            text="no committed transaction read a record of another one",
            remedy=remedy,
        ),
        Goal(name="retired key", counted=Exercise.GIVEN_UP.value, text="no key was retired", remedy=remedy),
    )


def several_topics_goal() -> Goal:
    """Require a transaction with inputs of several topics."""
    return Goal(
        name="several-topics",
        counted=Exercise.SEVERAL_TOPICS.value,
        text="no transaction covered inputs of more than one topic",
        remedy="a higher --rate or a larger --txn-size helps",
    )

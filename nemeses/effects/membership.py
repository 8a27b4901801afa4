"""The members of the group of an instance, and whether the group goes on without it and with its inputs."""

from collections.abc import Mapping, Set

from harness.common.errors import WaitTimeout
from harness.model.pipeline import TopicPartition
from harness.results.wording import join_words
from harness.runner.nemesis import FaultContext
from harness.runner.run_process import RunProcess
from nemeses.aiming.in_transaction import stage_of
from nemeses.aiming.observed_ids import observe_client

STABLE_TIMEOUT_S = 75.0
TAKE_OVER_TIMEOUT_S = 75.0


def members(context: FaultContext, member: RunProcess) -> frozenset[str]:
    """Wait until the group of the instance is stable, and return its member ids. Raises `WaitTimeout`."""
    return frozenset(
        context.wait_for(
            lambda: context.cluster.members(member.group or ""),
            f"the group {member.group} to be stable",
            STABLE_TIMEOUT_S,
            every_s=0.2,
        )
    )


def await_gone(context: FaultContext, member: RunProcess, own_ids: Set[str], before: Set[str]) -> str:
    """Wait until the instance has left its group and the group is stable without it. Return the proof
    as a sentence.

    If the member ids of the instance (`own_ids`) are not known, wait until any of the members in `before` has left.
    Then the proof says that this may have been another instance. Return an empty string if none left in time.
    """
    group = member.group

    def gone() -> str | None:
        now = context.cluster.members(group or "")
        left = before - set(now or ())
        if not now or not left or (own_ids and own_ids & set(now)):
            return None
        went_on = f"its group {group} went on without"
        if own_ids:
            return f"{went_on} it ({', '.join(sorted(own_ids))}), with {len(now)} members"
        cause = (
            ", because no protocol proxy is on its links" if observe_client(context, member) is None else ""
        )
        return (
            f"{went_on} {', '.join(sorted(left))}, with {len(now)} members; which of them was {member.journal} "
            f"is not known{cause}, so another instance may have left instead"
        )

    try:
        awaited = f"{group} to go on without {member.journal}"
        return context.wait_for(gone, awaited, TAKE_OVER_TIMEOUT_S, every_s=0.2)
    except WaitTimeout:
        return ""


def await_inputs_committed(context: FaultContext, member: RunProcess) -> str:
    """Wait until the group of an instance has committed inputs in each partition that has some. Return the proof.

    If the instance has left the group, other members have committed the first of its inputs then: they began at the
    committed offsets. The time without a commit is short, because the transaction of the instance may time out.
    Raises `WaitTimeout`.
    """
    group, topics = member.group or "", stage_of(context, member).reads
    first = context.cluster.committed_offsets(group)
    ends = {key: stable for key, (_, stable, _) in context.cluster.log_offsets(topics).items()}
    begins = {key: first.get(key, 0) for key, stable in sorted(ends.items()) if first.get(key, 0) < stable}
    last: Mapping[TopicPartition, int] = {}

    def committed() -> bool:
        nonlocal last
        last = context.cluster.committed_offsets(group)
        return all(last.get(key, 0) > begin for key, begin in begins.items())

    def ranges() -> str:
        return join_words(
            f"{topic}/{partition} from {begin} to {last.get((topic, partition), 0)}"
            for (topic, partition), begin in begins.items()
        )

    awaited = f"{group} to commit the inputs of {member.journal}"
    context.wait_for(committed, awaited, TAKE_OVER_TIMEOUT_S, every_s=0.2, last_seen=ranges)
    return f"the others had committed {ranges()}"

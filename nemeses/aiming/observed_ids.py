"""What an instance of a user's program is called: which of a group's members it is, and by which transactional id.

It does not say. Each instance has a client endpoint of its own, and the brokers can write down what they are asked over
it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from harness.common.errors import EnvironmentFailure
from harness.common.waiting import wait_for
from harness.runner.member import RunProcess
from harness.runner.nemesis import FaultContext
from harness.witness.request_log import ObservedClientIds

T = TypeVar("T")
IDENTIFY_TIMEOUT_S = 8.0
"""More than the 5 s between two heartbeats of the consumer protocol (3 s of the classic one)."""
RECORDING = "a fault's"


def find_member_ids(context: FaultContext, member: RunProcess) -> frozenset[str]:
    """The ids by which the instance is in its group; empty: that cannot be told."""
    group = member.group or ""

    def spoken(heard: ObservedClientIds) -> frozenset[str]:
        ids = frozenset(own for of, own in heard.members if of == group)
        return ids & frozenset(context.cluster.members(group) or ()) if ids else ids

    return _observe(context, member, spoken, "as a member") or frozenset()


def find_transactional_id(context: FaultContext, member: RunProcess) -> str | None:
    """The transactional id by which it speaks now, the last one where it has several. None: that cannot be told."""
    before = context.cluster.client_ids(
        member.endpoint
    ).transactional_ids  # of who had the endpoint before it, too

    def spoken(heard: ObservedClientIds) -> str | None:
        now = {own: at for own, at in heard.transactional_ids.items() if at > before.get(own, "")}
        return max(now, key=lambda own: now[own], default=None)

    return _observe(context, member, spoken, "with a transactional id")


def _observe(
    context: FaultContext, member: RunProcess, told: Callable[[ObservedClientIds], T], how: str
) -> T | None:
    """What is told by what its endpoint was heard to ask, once that is something; None: it never was."""
    cluster = context.cluster
    if not cluster.brokers:  # none of them is the run's own: they write nothing down for it
        return None
    try:
        cluster.record_requests(True, RECORDING)
        return wait_for(
            lambda: told(cluster.client_ids(member.endpoint)),
            f"a request of {member.journal} {how}",
            IDENTIFY_TIMEOUT_S,
            every_s=0.5,
        )
    except EnvironmentFailure:  # nobody speaks, or a broker does not answer
        return None
    finally:
        with suppress(EnvironmentFailure):
            cluster.record_requests(False, RECORDING)

"""Find the member ids and the transactional id of an instance of a custom pipeline.

An instance does not report its ids. But each instance has its own client endpoint, and the brokers can record the
requests that arrive there.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from harness.common.errors import EnvironmentFailure
from harness.runner.nemesis import FaultContext
from harness.runner.run_process import RunProcess
from harness.witness.request_log import ObservedClientIds

T = TypeVar("T")
IDENTIFY_TIMEOUT_S = 8.0
"""It is longer than the time between two heartbeats: 5 s in the consumer protocol, 3 s in the classic one."""
RECORDING = "a fault's"


def find_member_ids(context: FaultContext, member: RunProcess) -> frozenset[str]:
    """Return the member ids of the instance in its group. It is empty if they are not known."""
    group = member.group or ""

    def read_ids(observed: ObservedClientIds) -> frozenset[str]:
        ids = frozenset(member_id for its_group, member_id in observed.members if its_group == group)
        return ids & frozenset(context.cluster.members(group) or ()) if ids else ids

    return _observe(context, member, read_ids, "as a member") or frozenset()


def find_transactional_id(context: FaultContext, member: RunProcess) -> str | None:
    """Return the transactional id that the instance used last. None if it is not known."""
    # An earlier instance may have used the same endpoint, so only requests from now on count.
    before = context.cluster.client_ids(member.endpoint).transactional_ids

    def read_ids(observed: ObservedClientIds) -> str | None:
        last_used = {
            own_id: time
            for own_id, time in observed.transactional_ids.items()
            if time > before.get(own_id, "")
        }
        return max(last_used, key=lambda own_id: last_used[own_id], default=None)

    return _observe(context, member, read_ids, "with a transactional id")


def _observe(
    context: FaultContext, member: RunProcess, read_ids: Callable[[ObservedClientIds], T], request_kind: str
) -> T | None:
    """Record requests until `read_ids` returns a true value, and return it. None if there is none in time."""
    cluster = context.cluster
    if not cluster.brokers:  # an external cluster: its brokers cannot record requests for this run
        return None
    try:
        cluster.record_requests(True, RECORDING)
        return context.wait_for(
            lambda: read_ids(cluster.client_ids(member.endpoint)),
            f"a request of {member.journal} {request_kind}",
            IDENTIFY_TIMEOUT_S,
            every_s=0.5,
        )
    except EnvironmentFailure:  # the instance sends no request, or a broker does not answer
        return None
    finally:
        with suppress(EnvironmentFailure):
            cluster.record_requests(False, RECORDING)

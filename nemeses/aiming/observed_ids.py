"""Find the member ids and the transactional id of an instance of a custom pipeline.

An instance does not report its ids. But each instance has its own client endpoint, and the protocol proxy on its links
reads the ids in its requests.
"""

from collections.abc import Callable
from typing import TypeVar

from harness.common.errors import WaitTimeout
from harness.network import client_links_by_broker
from harness.protocol.observed_clients import ObservedClients
from harness.runner.nemesis import FaultContext
from harness.runner.run_process import RunProcess

T = TypeVar("T")
IDENTIFY_TIMEOUT_S = 8.0
"""It is longer than the time between two heartbeats: 5 s in the consumer protocol, 3 s in the classic one."""


def observe_client(context: FaultContext, member: RunProcess) -> ObservedClients | None:
    """Return what the requests of an instance say about it. None if no protocol proxy is on its links."""
    network = context.cluster.network
    return network.observed_clients(client_links_by_broker(member.endpoint, network.links).values())


def find_member_ids(context: FaultContext, member: RunProcess) -> frozenset[str]:
    """Return the member ids of the instance in its group. It is empty if they are not known."""
    group = member.group or ""

    def read_ids(observed: ObservedClients) -> frozenset[str]:
        ids = frozenset(observed.members.get(group, ()))
        return ids & frozenset(context.cluster.members(group) or ()) if ids else ids

    return _find(context, member, read_ids, "as a member") or frozenset()


def find_transactional_id(context: FaultContext, member: RunProcess) -> str | None:
    """Return the transactional id that the instance used last. None if it is not known."""
    # An earlier instance may have used the same endpoint, so only requests from now on count.
    earlier = observe_client(context, member)
    last_used_before = earlier.transactional_ids if earlier else {}

    def read_id(observed: ObservedClients) -> str | None:
        last_used = {
            own_id: at_ns
            for own_id, at_ns in observed.transactional_ids.items()
            if at_ns > last_used_before.get(own_id, 0)
        }
        return max(last_used, key=lambda own_id: last_used[own_id], default=None)

    return _find(context, member, read_id, "with a transactional id")


def _find(
    context: FaultContext, member: RunProcess, read: Callable[[ObservedClients], T], request_kind: str
) -> T | None:
    """Wait until `read` returns a true value, and return it. None if there is none in time, or no protocol proxy."""
    if observe_client(context, member) is None:
        return None

    def find() -> T | None:
        observed = observe_client(context, member)
        return None if observed is None else read(observed)

    try:
        awaited = f"a request of {member.journal} {request_kind}"
        return context.wait_for(find, awaited, IDENTIFY_TIMEOUT_S, every_s=0.1)
    except WaitTimeout:  # the instance sends no such request
        return None

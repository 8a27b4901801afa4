"""The features of a cluster that are in force, as a broker tells them to whoever asks for its versions (KIP-584)."""

from kafka.protocol.metadata import ApiVersionsRequest

from harness.clients.wire import Target, ask
from harness.cluster.admin import ASK_TIMEOUT_S, NO_ERROR, Refused


def finalized(target: Target, timeout_s: float = ASK_TIMEOUT_S) -> dict[str, int]:
    """By name: their level, in this broker's view. Raises `Refused`."""
    request = ApiVersionsRequest(client_software_name="fencepost", client_software_version="0", version=3)
    answer = ask(target, request, timeout_s)
    if answer.error_code != NO_ERROR:
        raise Refused("asking for the features", answer.error_code)
    return {one.name: int(one.max_version_level) for one in answer.finalized_features or ()}

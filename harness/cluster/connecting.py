"""How one connects to a cluster that is already there, and asks whichever of its brokers answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from harness.clients.client_properties import use_client_config
from harness.cluster import admin
from harness.cluster.admin import NOT_CONTROLLER, RequestRefused
from harness.cluster.forbidden import explain_refusal
from harness.cluster.questions import retry
from harness.common.errors import EnvironmentFailure, UsageError
from harness.wire.protocol import Address, Target, WireError
from harness.wire.security import Security

ANSWER_TIMEOUT_S = 5.0
CLEAN_UP_TIMEOUT_S = 30.0
T = TypeVar("T")


def parse_addresses(bootstrap: str, security: Security) -> list[Address]:
    """`HOST:PORT,...` as addresses. Raises `UsageError`."""
    found = []
    for one in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = one.rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"bootstrap must be HOST:PORT,... and has {one!r}")
        found.append(Address(host.strip("[]"), int(port), security))
    if not found:
        raise UsageError("bootstrap must be HOST:PORT,..., and names no server")
    return found


def bootstrap_servers(bootstrap: str | None, client_config: str | None) -> list[Address]:
    """The servers that a user names, here or in the file of client properties. Raises `FencepostError`."""
    told = use_client_config(client_config)
    return parse_addresses(bootstrap or told.bootstrap or "", told.security)


def fetch_first_view(servers: Sequence[Address]) -> admin.BrokerView:
    """What the first server that answers knows, without topics. Raises `EnvironmentFailure`."""
    refusals: list[str] = []
    for server in servers:
        try:
            return admin.fetch_view(server, ANSWER_TIMEOUT_S, topics=())
        except WireError as error:
            refusals.append(str(error))
    raise EnvironmentFailure(f"no bootstrap server answers: {'; '.join(refusals)}")


def inspect_cluster(bootstrap: str | None, client_config: str | None) -> admin.BrokerView:
    """The cluster that a user means, before anything is made. Raises `FencepostError`."""
    return fetch_first_view(bootstrap_servers(bootstrap, client_config))


def reach_brokers(servers: Sequence[Address]) -> dict[int, Address]:
    """Every broker's address, once every broker has answered at it. Raises `EnvironmentFailure`."""
    listens = fetch_first_view(servers).listens
    brokers = {broker: Address(host, port, servers[0].security) for broker, (host, port) in listens.items()}
    for broker, address in brokers.items():
        try:
            admin.fetch_view(address, ANSWER_TIMEOUT_S, topics=())
        except WireError as error:
            raise EnvironmentFailure(
                f"broker {broker} advertises {address}, which does not answer from here: {error}"
            ) from error
    return brokers


def ask_any(brokers: Mapping[int, Target], question: Callable[[Target], T]) -> T:
    """The answer of the first broker that has one. Raises `WireError`."""
    failed: WireError | None = None
    for address in brokers.values():
        try:
            return question(address)
        except RequestRefused as error:
            if error.code != NOT_CONTROLLER:
                raise
            failed = error  # with ZooKeeper, a broker that is not the controller passes nothing on
        except WireError as error:
            failed = error
    raise failed or WireError("there is no broker to ask")


def retry_unless_forbidden(question: Callable[[], T], operation: str, name: str, prefix: str) -> T:
    """Ask until it is answered; what ACLs or policies forbid ends it at once. Raises `EnvironmentFailure`."""

    def answer() -> T:
        try:
            return question()
        except RequestRefused as error:
            raise (explain_refusal(error, operation, name, prefix) or error) from error

    return retry(answer, f"{operation} of {name}", CLEAN_UP_TIMEOUT_S)

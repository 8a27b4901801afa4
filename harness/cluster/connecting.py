"""How one connects to a cluster that is already there, and asks whichever of its brokers answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from harness.clients.client_properties import use_client_config
from harness.cluster import admin
from harness.cluster.admin import NOT_CONTROLLER, RequestRefused
from harness.cluster.forbidden import explained
from harness.cluster.questions import persist
from harness.common.errors import EnvironmentFailure, UsageError
from harness.wire.protocol import Address, Target, WireError
from harness.wire.security import Security

ANSWER_TIMEOUT_S = 5.0
CLEAN_UP_TIMEOUT_S = 30.0
T = TypeVar("T")


def addresses_of(bootstrap: str, security: Security) -> list[Address]:
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


def servers_of(bootstrap: str | None, client_config: str | None) -> list[Address]:
    """The servers that a user names, here or in the file of client properties. Raises `FencepostError`."""
    told = use_client_config(client_config)
    return addresses_of(bootstrap or told.bootstrap or "", told.security)


def first_view(servers: Sequence[Address]) -> admin.BrokerView:
    """What the first server that answers knows, without topics. Raises `EnvironmentFailure`."""
    refusals: list[str] = []
    for server in servers:
        try:
            return admin.view_of(server, ANSWER_TIMEOUT_S, topics=())
        except WireError as error:
            refusals.append(str(error))
    raise EnvironmentFailure(f"no bootstrap server answers: {'; '.join(refusals)}")


def look(bootstrap: str | None, client_config: str | None) -> admin.BrokerView:
    """The cluster that a user means, before anything is made. Raises `FencepostError`."""
    return first_view(servers_of(bootstrap, client_config))


def reached(servers: Sequence[Address]) -> dict[int, Address]:
    """Every broker's address, once every broker has answered at it. Raises `EnvironmentFailure`."""
    listens = first_view(servers).listens
    brokers = {broker: Address(host, port, servers[0].security) for broker, (host, port) in listens.items()}
    for broker, address in brokers.items():
        try:
            admin.view_of(address, ANSWER_TIMEOUT_S, topics=())
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


def allowed(question: Callable[[], T], operation: str, name: str, prefix: str) -> T:
    """Ask until it is answered; what ACLs or policies forbid ends it at once. Raises `EnvironmentFailure`."""

    def answer() -> T:
        try:
            return question()
        except RequestRefused as error:
            raise (explained(error, operation, name, prefix) or error) from error

    return persist(answer, f"{operation} of {name}", CLEAN_UP_TIMEOUT_S)

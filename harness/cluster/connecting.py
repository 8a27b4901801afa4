"""Connect to an external cluster, send requests to any broker that answers, and explain refusals."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from harness.clients.client_properties import use_client_config
from harness.cluster import admin
from harness.cluster.admin import NOT_CONTROLLER, RequestRefused
from harness.cluster.questions import retry
from harness.common.errors import EnvironmentFailure, UsageError
from harness.results.reasons import BY_ACLS
from harness.wire.protocol import Address, Target, WireError
from harness.wire.security import Security

_NO_TOPIC = 3
_TOPIC, _GROUP, _CLUSTER, _ID = 29, 30, 31, 53
_POLICY, _REPLICATION, _NO_DELETION = 44, 38, 73
_RIGHTS = {
    "topic": ("Create", "Delete", "Describe", "Read", "Write"),
    "group": ("Read", "Delete"),
    "transactional-id": ("Describe", "Write"),
}
"""The operations that a run needs, by resource type."""
ALTER = "Alter"
"""The operation on topics that only a run with a fault on topics needs."""
ANSWER_TIMEOUT_S = 5.0
CLEAN_UP_TIMEOUT_S = 30.0
T = TypeVar("T")


class Forbidden(EnvironmentFailure):
    """The cluster forbids something that a run needs. A retry would not help."""


def explain_hidden(topic: str, code: int | None) -> str:
    """Say what was asked and what was answered, if the metadata of a cluster does not describe an internal topic.

    `code` is the error code of the topic; None: the answer did not mention the topic.
    """
    asked = f"a Metadata request for {topic} was answered"
    if code == _TOPIC:
        return f"{BY_ACLS} this user to see {topic} ({asked} with error {code}, TOPIC_AUTHORIZATION_FAILED)"
    if code == _NO_TOPIC:
        return f"{asked} with error {code}, UNKNOWN_TOPIC_OR_PARTITION: the cluster shows no such topic"
    return f"{asked} {'without this topic' if code is None else f'with error {code}'}"


def explain_refusal(error: RequestRefused, operation: str, name: str, prefix: str) -> Forbidden | None:
    """Return an error that explains a refusal to the user. None if the refusal may be temporary.

    `prefix`: the prefix of the names of everything that a run creates.
    """
    kinds = {_TOPIC: "topic", _GROUP: "group", _ID: "transactional-id", _CLUSTER: "topic"}
    if error.code in kinds:
        kind = kinds[error.code]
        rights = dict.fromkeys((*_RIGHTS[kind], *([operation] if operation == ALTER else [])))
        operations = " ".join(f"--operation {right}" for right in rights)
        return Forbidden(
            f"{BY_ACLS} this user {operation} of {name} ({error}); allow it with kafka-acls.sh "
            f"--add --allow-principal User:NAME {operations} --{kind} {prefix}- --resource-pattern-type prefixed"
        )
    if error.code in (_POLICY, _REPLICATION):
        return Forbidden(f"the cluster does not accept the run's topics: {error}")
    if error.code == _NO_DELETION:
        return Forbidden(
            f"the brokers cannot delete topics, because they have delete.topic.enable=false ({error})"
        )
    return None


def parse_addresses(bootstrap: str, security: Security) -> list[Address]:
    """Parse `HOST:PORT,...`. Raises `UsageError`."""
    addresses = []
    for text in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"bootstrap must be HOST:PORT,..., but has {text!r}")
        addresses.append(Address(host.strip("[]"), int(port), security))
    if not addresses:
        raise UsageError("bootstrap must be HOST:PORT,..., but names no server")
    return addresses


def bootstrap_servers(bootstrap: str | None, client_config: str | None) -> list[Address]:
    """Return the bootstrap servers in `bootstrap`. If it is None, return those in the client-config file.

    Raises `FencepostError`.
    """
    config = use_client_config(client_config)
    return parse_addresses(bootstrap or config.bootstrap or "", config.security)


def fetch_first_view(servers: Sequence[Address]) -> admin.BrokerView:
    """Return the view of the first server that answers, without topics. Raises `EnvironmentFailure`."""
    refusals: list[str] = []
    for server in servers:
        try:
            return admin.fetch_view(server, ANSWER_TIMEOUT_S, topics=())
        except WireError as error:
            refusals.append(str(error))
    raise EnvironmentFailure(f"no bootstrap server answers: {'; '.join(refusals)}")


def inspect_cluster(bootstrap: str | None, client_config: str | None) -> admin.BrokerView:
    """Return a view of the user's cluster, without topics. Nothing is created. Raises `FencepostError`."""
    return fetch_first_view(bootstrap_servers(bootstrap, client_config))


def reach_brokers(servers: Sequence[Address]) -> dict[int, Address]:
    """Return every broker's advertised address, after each broker has answered there. Raises `EnvironmentFailure`."""
    addresses = fetch_first_view(servers).addresses
    brokers = {broker: Address(host, port, servers[0].security) for broker, (host, port) in addresses.items()}
    for broker, address in brokers.items():
        try:
            admin.fetch_view(address, ANSWER_TIMEOUT_S, topics=())
        except WireError as error:
            raise EnvironmentFailure(
                f"broker {broker} advertises {address}, which does not answer this machine: {error}"
            ) from error
    return brokers


def ask_any(brokers: Mapping[int, Target], question: Callable[[Target], T]) -> T:
    """Ask the brokers one after another, and return the first answer. Raises `WireError` if there is none."""
    failure: WireError | None = None
    for address in brokers.values():
        try:
            return question(address)
        except RequestRefused as error:
            if error.code != NOT_CONTROLLER:
                raise
            failure = error  # with ZooKeeper, brokers do not forward requests to the controller
        except WireError as error:
            failure = error
    raise failure or WireError("there is no broker to ask")


def retry_unless_forbidden(question: Callable[[], T], operation: str, name: str, prefix: str) -> T:
    """Repeat a question until a broker answers it, but stop at once if ACLs or policies forbid the request.

    Args:
        question: Sends the request.
        operation: The name of the operation in ACLs, for messages.
        name: The topic, group or transactional id that the request concerns, for messages.
        prefix: The prefix that an ACL must allow, for messages.

    Raises:
        EnvironmentFailure: The request is forbidden (`Forbidden`), or there was no answer in time.
    """

    def answer() -> T:
        try:
            return question()
        except RequestRefused as error:
            raise (explain_refusal(error, operation, name, prefix) or error) from error

    return retry(answer, f"{operation} of {name}", CLEAN_UP_TIMEOUT_S)

"""Replace the brokers' addresses in responses, so that a client dials the proxies instead.

An address is a struct with a broker's id, a host and a port, wherever the schema has one: in Metadata, FindCoordinator,
DescribeCluster, and in the `NodeEndpoints` of Produce and Fetch, which name a new leader (KIP-951). In ApiVersions,
versions that the schemas do not have are removed, because their responses might hold addresses at unknown positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.protocol.rules import Frame
from harness.protocol.schemas import Field, Message, Schemas, UnknownMessage

HOST = "127.0.0.1"
UNREACHABLE = (HOST, 1)
"""The address for a broker that has no proxy. Nothing listens there."""
ADDRESS_APIS = frozenset({0, 1, 3, 10, 18, 60, 78, 79})
"""The APIs whose responses have addresses of brokers, and ApiVersions."""
HIDDEN_APIS = frozenset({4, 5, 6, 7, 52, 53, 54, 59, 82})
"""APIs between brokers and controllers. The proxy does not offer them: no client needs them."""
_MOST_VERSIONS = {55: 1}
"""By API: the newest version that is offered. From version 2 on, DescribeQuorum has the controllers' addresses."""


@dataclass
class AddressMap:
    """The address that a client gets for each broker."""

    by_broker: Mapping[int, tuple[str, int]]
    unknown_brokers: set[int] = field(default_factory=set)  # brokers in responses that have no proxy

    def of(self, broker: int) -> tuple[str, int]:
        """Return the address at which a client must dial a broker."""
        if broker not in self.by_broker:
            self.unknown_brokers.add(broker)
        return self.by_broker.get(broker, UNREACHABLE)

    def rewrite(self, frame: Frame, schemas: Schemas) -> bool:
        """Replace the addresses in a response. Return whether it has changed."""
        if frame.api == "ApiVersions":
            frame.body["ApiKeys"] = [
                each for key in frame.body["ApiKeys"] or () if (each := _offered(key, schemas))
            ]
            return True
        return self._replace(schemas.api(frame.api).response.fields, frame.body)

    def _replace(self, fields: tuple[Field, ...], body: Message) -> bool:
        changed = False
        if "Host" in body and "Port" in body:
            broker: int = body["NodeId"] if "NodeId" in body else body.get("BrokerId", -1)
            if broker >= 0:  # -1: there is no broker
                body["Host"], body["Port"] = self.of(broker)
                changed = True
        for each in fields:
            value: Any = body.get(each.name)
            if each.is_struct and value:
                for element in value if each.is_array else (value,):
                    changed |= self._replace(each.fields, element)
        return changed


def _offered(key: Message, schemas: Schemas) -> Message | None:
    """Return an API of an ApiVersions response with those of its versions that clients may use. None: no version."""
    try:
        known = schemas.api(key["ApiKey"]).request.versions.last
    except UnknownMessage:
        return None
    newest = min(key["MaxVersion"], known, _MOST_VERSIONS.get(key["ApiKey"], known))
    if key["ApiKey"] in HIDDEN_APIS or newest < key["MinVersion"]:
        return None
    return {**key, "MaxVersion": newest}

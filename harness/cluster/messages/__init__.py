"""Requests and responses that kafka-python does not have, as subclasses of its own message type.

Each class is made from a JSON file with Kafka's schema, without the descriptions.
"""

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Asks for the members of groups of the consumer protocol (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """The response."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Asks for the members of groups of the streams protocol (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """The response."""

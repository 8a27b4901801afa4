"""How the workers of a stage are members of its consumer group: the words of the options, and what does not go
together.
"""

from collections.abc import Mapping

from harness.errors import UsageError

PROTOCOLS = ("classic", "consumer")
ASSIGNORS = ("eager", "cooperative")


def check_group(protocol: str, assignor: str | None) -> None:
    """Raise `UsageError` for an assignor of clients where the group's coordinator assigns."""
    if protocol == "consumer" and assignor is not None:
        raise UsageError(
            f"assignor {assignor} does not go with group-protocol consumer, where the brokers assign the partitions "
            "(KIP-848): leave one of the two out"
        )


def session_timeout_ms(protocol: str, settings: Mapping[str, str], ours: int) -> int:
    """After how long without a heartbeat a member is out: in the consumer protocol the brokers' settings say."""
    told = settings.get("group.consumer.session.timeout.ms", "") if protocol == "consumer" else ""
    return int(told) if told.isdecimal() else ours

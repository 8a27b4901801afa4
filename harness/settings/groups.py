"""How the workers of a stage are members of its consumer group: the words of the options, and what does not go
together.
"""

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

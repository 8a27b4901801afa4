"""What it takes to strike in one state of a transaction, beyond what the fault takes anyway."""

from dataclasses import dataclass

from harness.cluster import Ability


@dataclass(frozen=True)
class AtState:
    """Seconds, abilities of the cluster, and brokers."""

    slower_s: float = 0.0
    needs: frozenset[Ability] = frozenset()
    least_brokers: int = 1

"""What it takes to strike in one state of a transaction, beyond what the fault takes anyway."""

from dataclasses import dataclass

from harness.cluster import Need


@dataclass(frozen=True)
class AtState:
    """Seconds, what the cluster must be able to do, and brokers."""

    slower_s: float = 0.0
    needs: frozenset[Need] = frozenset()
    least_brokers: int = 1

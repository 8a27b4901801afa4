"""What a fault takes for itself, as most faults say it."""

from harness.runner.nemesis import PlannedFault, Resource


def all_brokers(injection: PlannedFault) -> frozenset[Resource]:
    """What a fault that strikes brokers, or their links, occupies: the workers too, where it holds one of them."""
    holds = injection.step is not None or injection.state is not None
    return frozenset({Resource.BROKERS, *({Resource.WORKERS} if holds else ())})


def brokers_and_a_worker(_: PlannedFault) -> frozenset[Resource]:
    """What a fault that strikes a broker or a link while it holds a worker occupies."""
    return frozenset({Resource.BROKERS, Resource.WORKERS})


def all_workers(_: PlannedFault) -> frozenset[Resource]:
    """What a fault that strikes workers occupies."""
    return frozenset({Resource.WORKERS})


def all_services(_: PlannedFault) -> frozenset[Resource]:
    """What a fault that strikes the server of a store occupies."""
    return frozenset({Resource.SERVICES})

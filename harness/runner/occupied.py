"""Values of `Nemesis.occupies` that several nemeses share."""

from collections.abc import Callable

from harness.runner.nemesis import PlannedFault, Resource

Occupies = Callable[[PlannedFault], frozenset[Resource]]


def uses_brokers(planned: PlannedFault) -> frozenset[Resource]:
    """A fault that acts on brokers or links occupies BROKERS.

    If it waits for a worker's step or for a transaction state, it occupies WORKERS too.
    """
    holds_worker = planned.step is not None or planned.state is not None
    return frozenset({Resource.BROKERS, *({Resource.WORKERS} if holds_worker else ())})


def uses_brokers_and_workers(_: PlannedFault) -> frozenset[Resource]:
    """A fault that acts on a broker or a link, and holds a worker at the same time, occupies BROKERS and WORKERS."""
    return frozenset({Resource.BROKERS, Resource.WORKERS})


def uses_workers(_: PlannedFault) -> frozenset[Resource]:
    """A fault that acts on workers occupies WORKERS."""
    return frozenset({Resource.WORKERS})


def uses_also(resource: Resource, occupies: Occupies) -> Occupies:
    """Return a function that adds a resource to those that `occupies` returns."""
    return lambda planned: occupies(planned) | {resource}


def uses_services(_: PlannedFault) -> frozenset[Resource]:
    """A fault that acts on a database server occupies SERVICES."""
    return frozenset({Resource.SERVICES})

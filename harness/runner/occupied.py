"""Values of `Nemesis.occupies` that several nemeses share."""

from harness.runner.nemesis import PlannedFault, Resource


def all_brokers(planned: PlannedFault) -> frozenset[Resource]:
    """Return the resources of a fault of brokers or links.

    It also uses the workers if it stops a worker at a step or in a state.
    """
    stops_worker = planned.step is not None or planned.state is not None
    return frozenset({Resource.BROKERS, *({Resource.WORKERS} if stops_worker else ())})


def brokers_and_a_worker(_: PlannedFault) -> frozenset[Resource]:
    """Return the resources of a fault that acts on a broker or a link, and stops a worker at the same time."""
    return frozenset({Resource.BROKERS, Resource.WORKERS})


def all_workers(_: PlannedFault) -> frozenset[Resource]:
    """Return the resources of a fault of workers."""
    return frozenset({Resource.WORKERS})


def all_services(_: PlannedFault) -> frozenset[Resource]:
    """Return the resources of a fault of a database server."""
    return frozenset({Resource.SERVICES})

"""Values of `Nemesis.occupies` that several nemeses share."""

from harness.runner.nemesis import PlannedFault, Resource


def all_brokers(planned: PlannedFault) -> frozenset[Resource]:
    """For a fault of brokers or of their links.

    It also occupies the workers if it stops one at a step or in a state.
    """
    stops_worker = planned.step is not None or planned.state is not None
    return frozenset({Resource.BROKERS, *({Resource.WORKERS} if stops_worker else ())})


def brokers_and_a_worker(_: PlannedFault) -> frozenset[Resource]:
    """For a fault of a broker or of a link that stops a worker meanwhile."""
    return frozenset({Resource.BROKERS, Resource.WORKERS})


def all_workers(_: PlannedFault) -> frozenset[Resource]:
    """For a fault of workers."""
    return frozenset({Resource.WORKERS})


def all_services(_: PlannedFault) -> frozenset[Resource]:
    """For a fault of a database server."""
    return frozenset({Resource.SERVICES})

"""The workloads by name: a new one is one file and one line here."""

from workloads.echo import ECHO
from workloads.model import Workload
from workloads.shop import SHOP

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in (SHOP, ECHO)}

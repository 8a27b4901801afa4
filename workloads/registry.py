"""The workloads by name. To add one, write a file and add one line here."""

from workloads.at_least_once import AT_LEAST_ONCE, IDEMPOTENT
from workloads.at_most_once import AT_MOST_ONCE
from workloads.cdc import CDC
from workloads.echo import ECHO
from workloads.envelope import ENVELOPE
from workloads.explore import EXPLORE, EXPLORE_MEMBERS
from workloads.merge import MERGE
from workloads.model.workload import Workload
from workloads.orders import ORDERS
from workloads.outbox import OUTBOX_WORKLOAD
from workloads.sales import SALES
from workloads.shop import SHOP
from workloads.sparse import SPARSE
from workloads.square import SQUARE
from workloads.txn import TXN

_FILES = (
    SHOP,
    ECHO,
    ORDERS,
    SQUARE,
    SALES,
    CDC,
    OUTBOX_WORKLOAD,
    ENVELOPE,
    MERGE,
    SPARSE,
    TXN,
    IDEMPOTENT,
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _FILES}
ALL: dict[str, Workload] = {**WORKLOADS, **{each.name: each for each in (EXPLORE, EXPLORE_MEMBERS)}}
"""Also the workload that only `fencepost explore` runs."""

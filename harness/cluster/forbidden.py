"""What a cluster forbids, in a sentence that says what would allow it."""

from harness.cluster.admin import RequestRefused
from harness.common.errors import EnvironmentFailure

_TOPIC, _GROUP, _CLUSTER, _ID = 29, 30, 31, 53
_POLICY, _REPLICATION, _NO_DELETION = 44, 38, 73
_RIGHTS = {
    "topic": ("Create", "Delete", "Describe", "Read", "Write"),
    "group": ("Read", "Delete"),
    "transactional-id": ("Describe", "Write"),
}
"""What a run needs, by the kind of resource."""


class Forbidden(EnvironmentFailure):
    """The cluster does not let this user do what a run needs; asking again would not help."""


def explain_refusal(error: RequestRefused, operation: str, name: str, prefix: str) -> Forbidden | None:
    """The error as a user can act on it; None: it may pass. `prefix`: what all that a run makes there begins with."""
    kinds = {_TOPIC: "topic", _GROUP: "group", _ID: "transactional-id", _CLUSTER: "topic"}
    if error.code in kinds:
        kind = kinds[error.code]
        wanted = " ".join(f"--operation {right}" for right in _RIGHTS[kind])
        return Forbidden(
            f"the cluster's ACLs do not allow this user {operation} of {name} ({error}); allow it with kafka-acls.sh "
            f"--add --allow-principal User:NAME {wanted} --{kind} {prefix}- --resource-pattern-type prefixed"
        )
    if error.code in (_POLICY, _REPLICATION):
        return Forbidden(f"the cluster does not take the run's topics: {error}")
    if error.code == _NO_DELETION:
        return Forbidden(f"the brokers delete no topics, for they have delete.topic.enable=false ({error})")
    return None

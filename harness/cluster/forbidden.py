"""Explain a refusal by ACLs or policies, and how to allow the request."""

from harness.cluster.admin import RequestRefused
from harness.common.errors import EnvironmentFailure
from harness.results.reasons import BY_ACLS

_NO_TOPIC = 3
_TOPIC, _GROUP, _CLUSTER, _ID = 29, 30, 31, 53
_POLICY, _REPLICATION, _NO_DELETION = 44, 38, 73
_RIGHTS = {
    "topic": ("Create", "Delete", "Describe", "Read", "Write"),
    "group": ("Read", "Delete"),
    "transactional-id": ("Describe", "Write"),
}
"""The operations that a run needs, by resource type."""
ALTER = "Alter"
"""The operation on topics that only a run with a fault on topics needs."""


class Forbidden(EnvironmentFailure):
    """The cluster forbids something that a run needs. A retry would not help."""


def explain_hidden(topic: str, code: int | None) -> str:
    """Say what was asked and what was answered, if the metadata of a cluster does not describe an internal topic.

    `code` is the error code of the topic; None: the answer did not mention the topic.
    """
    asked = f"a Metadata request for {topic} was answered"
    if code == _TOPIC:
        return f"{BY_ACLS} this user to see {topic} ({asked} with error {code}, TOPIC_AUTHORIZATION_FAILED)"
    if code == _NO_TOPIC:
        return f"{asked} with error {code}, UNKNOWN_TOPIC_OR_PARTITION: the cluster shows no such topic"
    return f"{asked} {'without this topic' if code is None else f'with error {code}'}"


def explain_refusal(error: RequestRefused, operation: str, name: str, prefix: str) -> Forbidden | None:
    """Return an error that explains a refusal to the user. None if the refusal may be temporary.

    `prefix`: the prefix of the names of everything that a run creates.
    """
    kinds = {_TOPIC: "topic", _GROUP: "group", _ID: "transactional-id", _CLUSTER: "topic"}
    if error.code in kinds:
        kind = kinds[error.code]
        rights = dict.fromkeys((*_RIGHTS[kind], *([operation] if operation == ALTER else [])))
        operations = " ".join(f"--operation {right}" for right in rights)
        return Forbidden(
            f"{BY_ACLS} this user {operation} of {name} ({error}); allow it with kafka-acls.sh "
            f"--add --allow-principal User:NAME {operations} --{kind} {prefix}- --resource-pattern-type prefixed"
        )
    if error.code in (_POLICY, _REPLICATION):
        return Forbidden(f"the cluster does not accept the run's topics: {error}")
    if error.code == _NO_DELETION:
        return Forbidden(
            f"the brokers cannot delete topics, because they have delete.topic.enable=false ({error})"
        )
    return None

"""One cluster for a session of several processes (pytest-xdist): it is started when the first of them asks.

Like all that a user's process loads, this imports no other room of the house.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fencepost.api import FencepostFailed
from fencepost.judges.door import Door, asked
from fencepost.sessions.lifetime import START_TIMEOUT_S, SharedCluster, shared_cluster


class ClusterDoor(Door):
    """Answers whoever comes with where the cluster is, or with why there is none; it ends when the door is closed."""

    def __init__(self) -> None:
        self._options: str | None = None
        self._told = ""
        super().__init__()

    def _answer(self, question: str) -> str:
        if self._options is None:
            self._options, self._told = question, self._begun(json.loads(question))
        if question != self._options:
            why = (
                "the tests of a session share one cluster, and fencepost_cluster_options says two things: "
                f"{self._options} and {question}"
            )
            return json.dumps({"status": 2, "why": why})
        return self._told

    def _begun(self, options: Mapping[str, Any]) -> str:
        try:
            cluster = self._stack.enter_context(shared_cluster(options))
        except FencepostFailed as error:  # every other test would fail as this one does
            return json.dumps({"status": error.exit_status, "why": str(error)})
        return json.dumps({"cluster": asdict(cluster)})


def cluster_behind(path: Path, options: Mapping[str, Any]) -> SharedCluster:
    """The cluster behind a door. Raises `FencepostFailed`."""
    told = asked(path, json.dumps(options, sort_keys=True, default=str), 2 * START_TIMEOUT_S)
    try:
        body = json.loads(told)
    except ValueError:
        raise FencepostFailed(
            4, "the session's first process does not answer: it starts the cluster"
        ) from None
    if "cluster" not in body:
        raise FencepostFailed(body["status"], body["why"])
    return SharedCluster(**body["cluster"])

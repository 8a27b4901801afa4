"""What only an external cluster has, and what it cannot do without."""

from collections.abc import Collection, Mapping

from harness.errors import UsageError

WORKERS, LINKS = "workers", "links"
PERMITS = (WORKERS, LINKS)
"""What a run may strike of an external cluster and its clients; the workers are the run's own."""


def check_external(
    cluster: str, bootstrap: str | None, client_config: str | None, keep: str, settings: Mapping[str, str]
) -> None:
    """Raises `UsageError` in one sentence."""
    if cluster == "external":
        if bootstrap is None and client_config is None:
            raise UsageError("--cluster external needs --set bootstrap=HOST:PORT,...")
        if settings:
            raise UsageError("an external cluster has its own broker settings: leave out --set broker....")
        if keep == "logs":
            raise UsageError("an external cluster keeps its segment files itself: leave out --keep logs")
        return
    given = {
        "--set bootstrap": bootstrap is not None,
        "--set client-config": client_config is not None,
        "--keep topics": keep == "topics",
    }
    if names := [name for name, there in given.items() if there]:
        raise UsageError(f"{names[0]} needs --cluster external")


def check_permits(cluster: str, permits: Collection[str] | None) -> None:
    """Raise `UsageError` for what cannot be permitted on a cluster of that kind."""
    if permits is None:
        return
    if cluster != "external":
        raise UsageError(
            "--set permits needs --cluster external: everything of a cluster of our own may be struck"
        )
    if strange := [one for one in permits if one not in PERMITS]:
        raise UsageError(
            f"a run cannot strike {strange[0]} of an external cluster: permits may have {' and '.join(PERMITS)}"
        )


def check_given(cluster: str, given: Collection[str]) -> None:
    """Raise `UsageError` for an option that a user gave, by key, and that an external cluster decides by itself."""
    if cluster == "external" and "brokers" in given:
        raise UsageError("an external cluster has its own number of brokers: leave out --brokers")

"""What only an external cluster has, and what it cannot do without."""

from collections.abc import Mapping

from harness.errors import UsageError


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

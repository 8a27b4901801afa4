"""How long a fault hurt, in words. Console, JUnit and HTML report share them."""

from collections.abc import Sequence

from harness.results.liveness import Liveness
from harness.results.wording import number, plural, printable

NOT_SEEN, NOT_KNOWN = "not seen", "not known"


def describe_recovery(liveness: Liveness | None) -> str:
    """Return for example `commits again after 1.2 s, longest gap 3.4 s, back to normal after 6.0 s`.

    An empty string if the run stored no liveness.
    """
    if liveness is None:
        return ""
    if liveness.not_known is not None:
        return f"not known: {printable(liveness.not_known, 300)}"
    parts = [
        "no commit followed"
        if liveness.first_commit_s is None
        else f"commits again after {_seconds(liveness.first_commit_s)}"
    ]
    if liveness.longest_gap_s is not None:
        over = f" (the time-outs explain {_seconds(liveness.bound_s)})" if liveness.stalled else ""
        parts.append(f"longest gap {_seconds(liveness.longest_gap_s)}{over}")
    if liveness.normal_after_s == 0:
        parts.append("stayed normal")
    elif liveness.normal_after_s is not None:
        parts.append(f"back to normal after {_seconds(liveness.normal_after_s)}")
    elif liveness.normal_known:
        parts.append("not seen back to normal")
    else:
        before = plural(liveness.seconds_before or 0, "second")
        parts.append(f"not known when back to normal: only {before} of load before it")
    return ", ".join(parts)


def recovery_details(liveness: Liveness) -> Sequence[tuple[str, str]]:
    """Return each value with its name, in the order of display."""
    return [
        ("First commit after the injection", _seconds(liveness.first_commit_s)),
        ("First commit after the heal", _seconds(liveness.first_commit_after_heal_s)),
        ("Longest gap", _seconds(liveness.longest_gap_s)),
        (
            "Longest gap of a partition",
            _of_partition(liveness.worst_partition_gap_s, liveness.worst_partition),
        ),
        ("Bound of the gap", _seconds(liveness.bound_s)),
        ("LSO stood still", _of_partition(liveness.lso_still_s, liveness.lso_partition)),
        *(
            (name, _seconds(value) if liveness.normal_known else NOT_KNOWN)
            for name, value in (
                ("Rate back", liveness.rate_back_s),
                ("Latency back", liveness.latency_back_s),
                ("Lag back", liveness.lag_back_s),
            )
        ),
        ("Aborted", _count(liveness.aborted)),
        ("Fenced", _count(liveness.fenced)),
        ("Rebalances", _count(liveness.rebalances)),
    ]


def _seconds(value: float | None) -> str:
    return NOT_SEEN if value is None else f"{value:,.1f} s"


def _of_partition(value: float | None, partition: str | None) -> str:
    return _seconds(value) + (f", {printable(partition, 100)}" if partition is not None else "")


def _count(value: int | None) -> str:
    return NOT_KNOWN if value is None else number(value)

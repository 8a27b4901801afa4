"""How long a fault hurt, in words. Console, JUnit and HTML report share them."""

from collections.abc import Iterator, Sequence

from harness.common.wording import join_words, number, plural, printable
from harness.results.recovery import Liveness

NOT_SEEN, NOT_KNOWN, NOT_MEASURED = "not seen", "not known", "not measured"
NOT_APPLICABLE = "none"
VALUES = {"rate_back_s": "rate", "latency_back_s": "latency", "lag_back_s": "lag"}


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
    parts += [_normal(liveness), *_victim(liveness)]
    return ", ".join(parts)


def _normal(liveness: Liveness) -> str:
    """Say when rate, latency and lag were back to normal, or which of them were not."""
    if not liveness.normal_known:
        before = plural(liveness.seconds_before or 0, "second")
        return f"not known when back to normal: only {before} of load before it"
    if not_back := [VALUES[name] for name in liveness.not_back]:
        return f"{join_words(not_back)} not back to normal before the next fault or the end of the load"
    if liveness.inputs_not_back:
        return "the rest of the pipeline back to normal"  # what is not back is said next
    if liveness.normal_after_s == 0:
        return "stayed normal"
    return f"back to normal after {_seconds(liveness.normal_after_s)}"


def _victim(liveness: Liveness) -> Iterator[str]:
    """Say when the process that was hit, and the slowest input partition, were committed again."""
    if liveness.victim is not None and liveness.victim_not_known is None:
        victim = printable(liveness.victim, 60)
        if liveness.victim_commit_s is None:
            yield f"{victim} itself committed nothing more"
        else:
            yield f"{victim} itself commits again after {_seconds(liveness.victim_commit_s)}"
    if liveness.inputs_not_back:
        names = join_words([printable(name, 80) for name in liveness.inputs_not_back])
        yield f"no offset of {names} was committed any more"
    elif (slowest_s := liveness.slowest_input_s) is not None and slowest_s > (
        liveness.first_commit_s or 0
    ) + 1:
        yield (
            f"all input partitions committed after {_seconds(slowest_s)} "
            f"(the last was {printable(liveness.slowest_input, 80)})"
        )


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
        *((f"{word.capitalize()} back", _back(liveness, name)) for name, word in VALUES.items()),
        ("Slowest input partition", _of_partition(liveness.slowest_input_s, liveness.slowest_input)),
        ("Next commit of the process that was hit", _of_victim(liveness)),
        ("Aborted", _count(liveness.aborted)),
        ("Fenced", _count(liveness.fenced)),
        ("Rebalances", _count(liveness.rebalances)),
    ]


def _back(liveness: Liveness, name: str) -> str:
    if name in liveness.not_measured:
        return NOT_MEASURED
    return _seconds(getattr(liveness, name)) if liveness.normal_known else NOT_KNOWN


def _of_victim(liveness: Liveness) -> str:
    if liveness.victim is None:
        return NOT_APPLICABLE
    if liveness.victim_not_known is not None:
        return f"{NOT_KNOWN}: {printable(liveness.victim_not_known, 100)}"
    return f"{_seconds(liveness.victim_commit_s)}, {printable(liveness.victim, 60)}"


def _seconds(value: float | None) -> str:
    return NOT_SEEN if value is None else f"{value:,.1f} s"


def _of_partition(value: float | None, partition: str | None) -> str:
    return _seconds(value) + (f", {printable(partition, 100)}" if partition is not None else "")


def _count(value: int | None) -> str:
    return NOT_KNOWN if value is None else number(value)

"""How long a fault hurt: when the pipeline committed again, its gaps, and when it was back to normal."""

from typing import Annotated

from msgspec import Meta, Struct

from harness.results import Count, Duration

COMPARED_WITH_NORMAL = ("rate_back_s", "latency_back_s", "lag_back_s")
"""The values of `Liveness` that are measured against what was normal before the fault."""
LEAST_BEFORE_S = 3
"""A median of fewer seconds before the fault says nothing: then it is not known when the value was back."""


class Liveness(Struct, frozen=True):
    """The progress of a pipeline in the window of one fault. Durations are seconds. None: it did not happen, or the
    evidence does not show it.

    The window begins when the fault is injected. It ends when the next fault is injected, but not before this fault
    was healed. At the latest it ends with the load, when no more inputs arrive. If the fault was healed later than
    that, it ends with the last commit.

    A value is back in its band if it is within 25 % of its median in the ten seconds before the fault, or better, for
    two seconds.
    """

    first_commit_s: Annotated[
        Duration | None,
        Meta(
            description="from the injection to the first commit that followed. A rule counts from the first message "
            "on which it acted"
        ),
    ] = None
    first_commit_after_heal_s: Annotated[
        Duration | None, Meta(description="from the heal to the first commit that followed")
    ] = None
    longest_gap_s: Annotated[
        Duration | None, Meta(description="the longest time without a commit in the window of the fault")
    ] = None
    worst_partition: Annotated[
        str | None,
        Meta(
            description="the output partition with the longest time without a commit: `invoices/2`. Only partitions "
            "that had received commits before the fault are compared"
        ),
    ] = None
    worst_partition_gap_s: Annotated[
        Duration | None, Meta(description="the longest time without a commit in that partition")
    ] = None
    lso_still_s: Annotated[
        Duration | None,
        Meta(
            description="the longest time in which the last stable offset of a partition did not move although its "
            "end had moved"
        ),
    ] = None
    lso_partition: Annotated[str | None, Meta(description="that partition")] = None
    rate_back_s: Annotated[
        Duration | None,
        Meta(
            description="from the injection until commits per second are back in their band: for two seconds within "
            "25 % of their median in the ten seconds before the fault, or better"
        ),
    ] = None
    latency_back_s: Annotated[Duration | None, Meta(description="the same for the latency of commits")] = None
    lag_back_s: Annotated[Duration | None, Meta(description="the same for the lag")] = None
    not_measured: Annotated[
        tuple[str, ...],
        Meta(
            description="which of `rate_back_s`, `latency_back_s` and `lag_back_s` the run cannot show: without "
            "transactions there is no latency of commits, and without committed offsets no lag. They are `null` then"
        ),
    ] = ()
    slowest_input: Annotated[
        str | None,
        Meta(
            description="the input partition whose group committed offsets last after the fault: `purchases/2`"
        ),
    ] = None
    slowest_input_s: Annotated[
        Duration | None,
        Meta(
            description="from the injection to its first commit. Only partitions are compared that had inputs to "
            "process after the injection"
        ),
    ] = None
    inputs_not_back: Annotated[
        tuple[str, ...],
        Meta(
            description="the input partitions with inputs to process and no commit until the end of the run"
        ),
    ] = ()
    victim: Annotated[
        str | None,
        Meta(description="the process that the fault hit: `bill-2`; null: it hit no single process"),
    ] = None
    victim_commit_s: Annotated[
        Duration | None,
        Meta(
            description="from the injection to the next commit of that process, or of the one that took its place"
        ),
    ] = None
    victim_not_known: Annotated[
        str | None, Meta(description="why the commits of that process are not known; null: they are")
    ] = None
    aborted: Annotated[
        Count | None,
        Meta(description="transactions in the window that were aborted, according to the transaction log"),
    ] = None
    fenced: Annotated[
        Count | None,
        Meta(description="transactions in the window that were fenced, according to the journals"),
    ] = None
    rebalances: Annotated[
        Count | None,
        Meta(
            description="how often consumers were assigned partitions in the window, according to the journals"
        ),
    ] = None
    bound_s: Annotated[
        Duration | None,
        Meta(description="the longest gap that the time-outs in force explain for this kind of fault"),
    ] = None
    seconds_before: Annotated[
        Count | None,
        Meta(
            description="the seconds from the first commit to the fault, at most ten: they say what is normal. With "
            "fewer than three, `rate_back_s`, `latency_back_s` and `lag_back_s` are not known. The first"
            " fault begins eight seconds after the first input, or earlier if the time limit has no room"
            " for that"
        ),
    ] = None
    not_known: Annotated[
        str | None,
        Meta(
            description="why nothing is known: the brokers' clocks are not the clock of this machine, a fault "
            "changed a clock, or a table is missing. All other values are `null` then"
        ),
    ] = None

    @property
    def normal_known(self) -> bool:
        """Return True if the load lasted `LEAST_BEFORE_S` before the fault. A shorter load shows no normal values."""
        return self.seconds_before is None or self.seconds_before >= LEAST_BEFORE_S

    @property
    def normal_after_s(self) -> float | None:
        """From the injection until the measured ones of rate, latency and lag are back in their bands. None: not all
        were seen back.
        """
        back = [getattr(self, name) for name in COMPARED_WITH_NORMAL if name not in self.not_measured]
        return None if None in back else max(filter(None, back), default=0.0)

    @property
    def not_back(self) -> tuple[str, ...]:
        """The measured values that were not seen back in their bands."""
        return tuple(
            name
            for name in COMPARED_WITH_NORMAL
            if name not in self.not_measured and getattr(self, name) is None
        )

    @property
    def stalled(self) -> bool:
        """Return whether the longest gap is longer than the bound."""
        return (
            self.longest_gap_s is not None and self.bound_s is not None and self.longest_gap_s > self.bound_s
        )

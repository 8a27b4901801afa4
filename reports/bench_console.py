"""What `fencepost bench` says at its end, for people."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def last_lines(figures: Mapping[str, Any], page: Path, command: str) -> Iterator[str]:
    """The cost by transaction size, the claims, the page, and the command that repeats it."""
    for point in figures["points"]:
        for figure, ratio in point["ratios"].items():
            if point["delivery"] == "transactions" and figure in ("throughput", "p50") and point["journal"]:
                yield (
                    f"  {point['where']}: {figure} x {ratio['median']:.2f} "
                    f"({ratio['min']:.2f} to {ratio['max']:.2f}) of {ratio['to']['delivery']}"
                )
    for claim in figures["claims"]:
        yield f"{claim['answer']:<12}  {claim['text']}"
    if figures["cut_short"]:
        made = figures["measurements"]
        yield f"cut short: {made['made']} of {made['planned']} measurements were made"
    yield f"page     {page}"
    yield f"repeat   {command}"

"""The results of a bench as one self-contained HTML file: ratios, plots, and the quoted figures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.results import wording as words
from reports.charts.lines import ChartSeries, Dot, lines
from reports.html.template import WIDTHS, Drawings, policy, template

_HERE = Path(__file__).parent
_KINDS = {"at-least-once": "first", "idempotent": "second", "transactions": "third"}
STEPS = {
    "poll": "poll",
    "journal": "journal",
    "flush": "flush: the records are sent and acknowledged",
    "offsets": "offsets of the inputs",
    "commit": "commit",
    "rest": "the rest: transform, handing records to the client, Python",
}
"""Names of the steps of a batch, in order."""
BARE = "without journal"


def draw(figures: Mapping[str, Any]) -> str:
    """Return the page, from the figures that `--json` prints."""
    style = (_HERE / "report.css").read_text()
    filters = {
        "show": words.printable,
        "number": lambda value: "" if value is None else words.number(value),
        "ms": lambda value: "too few" if value is None else words.milliseconds(value),
        "times": lambda value: f"{value:.2f}",
    }
    points = figures["points"]
    return template("bench.html", filters).render(
        figures=figures,
        style=Markup(style),
        policy=policy(style, ""),
        throughput=[one for one in points if one["measured"] == "throughput"],
        latency=[one for one in points if one["measured"] == "latency"],
        plots=list(_plots(figures)),
        steps=[one for one in points if one.get("steps_ms") and one["journal"]],
        step_names=STEPS,
        bare=BARE,
        journal=[one for one in points if not one["journal"]],
        settings=list(_settings(figures)),
        reference=_reference(points),
    )


def _reference(points: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the point that throughput plots are relative to: the fastest at-least-once pipeline."""
    grid = [one for one in _grid(points, "throughput") if one["delivery"] == "at-least-once"]
    return max(grid, key=lambda one: float(one["inputs_per_s"]), default=None)


def _grid(points: Sequence[Mapping[str, Any]], measured: str) -> list[Mapping[str, Any]]:
    """Return the points that differ only by delivery, client and size: those with the first numbers of partitions
    and workers.
    """
    kind = [one for one in points if one["measured"] == measured and one["journal"]]
    return [one for one in kind if all(one[name] == kind[0][name] for name in ("partitions", "workers"))]


def _plots(figures: Mapping[str, Any]) -> Iterator[tuple[str, str, Drawings]]:
    """Yield name, unit and drawing of each plot."""
    points = figures["points"]
    reference = _reference(points)
    clients = list(dict.fromkeys(one["client"] for one in points))
    for client in clients:
        own = [one for one in _grid(points, "throughput") if one["client"] == client]
        if reference is not None:
            top = float(reference["inputs_per_s"])

            def share(one: Mapping[str, Any], top: float = top) -> Dot:
                low, middle, high = (
                    float(one[name]) / top * 100 for name in ("slowest", "inputs_per_s", "fastest")
                )
                return Dot(one["txn_size"], middle, low, high)

            yield _plot(f"Throughput, {client}", "% of the fastest", own, share)
            yield _plot(
                f"Throughput relative to {figures['baseline']}, {client}",
                "ratio",
                [one for one in own if "throughput" in one["ratios"]],
                lambda one: _dot(one, "throughput"),
            )
        seen = [one for one in _grid(points, "latency") if one["client"] == client]
        for name in ("p50", "p99"):
            with_quantile = [one for one in seen if one["latency_ms"][name] is not None]
            yield _plot(
                f"Latency, {'median' if name == 'p50' else '99th percentile'}, {client}",
                "ms",
                with_quantile,
                partial(_quantile, name),
            )


def _quantile(name: str, one: Mapping[str, Any]) -> Dot:
    value = one["latency_ms"][name]
    return Dot(one["txn_size"], value, value, value)


def _dot(one: Mapping[str, Any], figure: str) -> Dot:
    ratio = one["ratios"][figure]
    return Dot(one["txn_size"], ratio["median"], ratio["min"], ratio["max"])


def _plot(
    name: str, unit: str, points: Sequence[Mapping[str, Any]], dot: Callable[[Mapping[str, Any]], Dot]
) -> tuple[str, str, Drawings]:
    series = [
        ChartSeries(
            delivery,
            kind,
            sorted((dot(one) for one in points if one["delivery"] == delivery), key=lambda each: each.x),
        )
        for delivery, kind in _KINDS.items()
    ]
    ident = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    return name, unit, Drawings(*(lines(f"{ident}-{width}", width, name, unit, series) for width in WIDTHS))


def _settings(figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each setting of the measurement."""
    for table in ("machine", "versions", "cluster"):
        for name, value in figures[table].items():
            if isinstance(value, Mapping):
                for setting, text in value.items():
                    yield setting, words.printable(text)
            else:
                yield name.replace("_", " "), words.printable(value)

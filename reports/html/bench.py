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
WITHOUT_JOURNAL = "without journal"


def draw(figures: Mapping[str, Any]) -> str:
    """Return the page, from the figures that `--json` prints."""
    style = (_HERE / "report.css").read_text(encoding="utf-8")
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
        policy=policy([style], []),
        throughput=[point for point in points if point["measured"] == "throughput"],
        latency=[point for point in points if point["measured"] == "latency"],
        plots=list(_plots(figures)),
        steps=[point for point in points if point.get("steps_ms") and point["journal"]],
        step_names=STEPS,
        without_journal=WITHOUT_JOURNAL,
        journal=[point for point in points if not point["journal"]],
        settings=list(_settings(figures)),
        reference=_reference(points),
    )


def _reference(points: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the reference point of the throughput plots: the fastest at-least-once pipeline."""
    grid = [point for point in _grid(points, "throughput") if point["delivery"] == "at-least-once"]
    return max(grid, key=lambda point: float(point["inputs_per_s"]), default=None)


def _grid(points: Sequence[Mapping[str, Any]], measured: str) -> list[Mapping[str, Any]]:
    """Return the points that differ only by delivery, client and size: those with the first numbers of partitions
    and workers.
    """
    kind = [point for point in points if point["measured"] == measured and point["journal"]]
    return [
        point for point in kind if all(point[name] == kind[0][name] for name in ("partitions", "workers"))
    ]


def _plots(figures: Mapping[str, Any]) -> Iterator[tuple[str, str, Drawings]]:
    """Yield name, unit and drawing of each plot."""
    points = figures["points"]
    reference = _reference(points)
    clients = list(dict.fromkeys(point["client"] for point in points))
    for client in clients:
        of_client = [point for point in _grid(points, "throughput") if point["client"] == client]
        if reference is not None:
            top = float(reference["inputs_per_s"])

            def share(point: Mapping[str, Any], top: float = top) -> Dot:
                low, middle, high = (
                    float(point[name]) / top * 100 for name in ("slowest", "inputs_per_s", "fastest")
                )
                return Dot(point["txn_size"], middle, low, high)

            yield _plot(f"Throughput, {client}", "% of the fastest", of_client, share)
            yield _plot(
                f"Throughput relative to {figures['baseline']}, {client}",
                "ratio",
                [point for point in of_client if "throughput" in point["ratios"]],
                lambda point: _dot(point, "throughput"),
            )
        latency_points = [point for point in _grid(points, "latency") if point["client"] == client]
        for name in ("p50", "p99"):
            with_quantile = [point for point in latency_points if point["latency_ms"][name] is not None]
            yield _plot(
                f"Latency, {'median' if name == 'p50' else '99th percentile'}, {client}",
                "ms",
                with_quantile,
                partial(_quantile, name),
            )


def _quantile(name: str, point: Mapping[str, Any]) -> Dot:
    value = point["latency_ms"][name]
    return Dot(point["txn_size"], value, value, value)


def _dot(point: Mapping[str, Any], figure: str) -> Dot:
    ratio = point["ratios"][figure]
    return Dot(point["txn_size"], ratio["median"], ratio["min"], ratio["max"])


def _plot(
    name: str, unit: str, points: Sequence[Mapping[str, Any]], dot: Callable[[Mapping[str, Any]], Dot]
) -> tuple[str, str, Drawings]:
    series = [
        ChartSeries(
            delivery,
            kind,
            sorted(
                (dot(point) for point in points if point["delivery"] == delivery),
                key=lambda measured: measured.x,
            ),
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

"""A suite as JUnit XML: one test case for each run.

A failure is a forbidden anomaly that is not a known failure, or a planted defect that was not caught. An error is an
unknown verdict, or no verdict. Known failures and cells that did not run are skipped.
"""

from xml.etree import ElementTree

from harness.common.wording import printable
from harness.results.suite import Cell, CellState, Suite
from reports.suites.wording import lead, log_of, report_of

TAGS = {
    CellState.INVALID: "failure",
    CellState.MISSED: "failure",
    CellState.UNKNOWN: "error",
    CellState.FAILED: "error",
    CellState.NOT_CHECKED: "error",
    CellState.KNOWN: "skipped",
    CellState.NOT_RUN: "skipped",
}
"""The element of a test case that did not pass."""


def junit(suite: Suite) -> str:
    """Return the XML document."""
    root = ElementTree.Element("testsuites", {"name": "fencepost"})
    suite_element = ElementTree.SubElement(
        root, "testsuite", {"name": printable(suite.name, 80), "timestamp": printable(suite.started, 40)}
    )
    properties = ElementTree.SubElement(suite_element, "properties")
    for key, value in (("file", suite.file), ("seed", suite.seed), ("judge", suite.judge)):
        ElementTree.SubElement(properties, "property", {"name": key, "value": printable(value, 400)})
    for cell in suite.cells:
        _case(suite_element, suite, cell)
    for element in (root, suite_element):
        _count(element, suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite_element: ElementTree.Element, suite: Suite, cell: Cell) -> None:
    attributes = {
        "classname": f"{printable(suite.name, 80)}.{printable(cell.workload, 80)}.{printable(cell.client, 80)}",
        "name": printable(cell.name, 400),
        "time": f"{cell.duration_s or 0.0:.3f}",
    }
    case = ElementTree.SubElement(suite_element, "testcase", attributes)
    properties = ElementTree.SubElement(case, "properties")
    for key, value in (("seed", cell.seed), ("kafka", cell.kafka), ("report", report_of(cell))):
        if value is not None:
            ElementTree.SubElement(properties, "property", {"name": key, "value": printable(value, 400)})
    tag, source_place = TAGS.get(cell.state), _source_place(cell)
    if tag is not None:
        element = ElementTree.SubElement(case, tag, {"message": printable(_message(cell), 1000)})
        if tag != "skipped":
            element.set("type", str(cell.state))
            element.text = "\n".join(filter(None, [lead(cell), source_place])) or None
    output = ElementTree.SubElement(case, "system-out")
    output.text = "\n".join(filter(None, [f"repeat: {printable(cell.command, 4000)}", source_place]))


def _source_place(cell: Cell) -> str:
    """Return `report: PATH`, or `log: PATH` for a run without a report. Empty: the run has neither."""
    report, log = report_of(cell), log_of(cell)
    if report is not None:
        return f"report: {printable(report, 400)}"
    return f"log: {printable(log, 400)}" if log is not None else ""


def _message(cell: Cell) -> str:
    if cell.state is CellState.KNOWN:
        return f"known: {cell.known}"
    names = ", ".join(cell.anomalies)
    reason = cell.reason or str(cell.state)
    return f"{names}: {reason}" if names else reason


def _count(element: ElementTree.Element, suite: Suite) -> None:
    element.set("tests", str(len(suite.cells)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(TAGS.get(cell.state) == tag for cell in suite.cells)))
    element.set("time", f"{sum(cell.duration_s or 0.0 for cell in suite.cells):.3f}")

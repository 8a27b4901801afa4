"""A suite as JUnit XML: one case for each of its runs.

Failure: an anomaly that the guarantee forbids and that is not known, and a planted defect that was not caught. Error:
the verdict is unknown, or there is none. Skipped: a known failure, and a cell that did not run.
"""

from xml.etree import ElementTree

from harness.suite import Cell, State, Suite
from harness.telling.words import printable
from reports.suites.lines import lead, places, report_of

TAGS = {
    State.INVALID: "failure",
    State.MISSED: "failure",
    State.UNKNOWN: "error",
    State.FAILED: "error",
    State.NOT_JUDGED: "error",
    State.KNOWN: "skipped",
    State.NOT_RUN: "skipped",
}
"""What a case has that did not pass."""


def junit(suite: Suite) -> str:
    """The XML document."""
    root = ElementTree.Element("testsuites", {"name": "fencepost"})
    whole = ElementTree.SubElement(
        root, "testsuite", {"name": printable(suite.name, 80), "timestamp": printable(suite.started, 40)}
    )
    properties = ElementTree.SubElement(whole, "properties")
    for key, value in (("file", suite.file), ("seed", suite.seed), ("judge", suite.judge)):
        ElementTree.SubElement(properties, "property", {"name": key, "value": printable(value, 400)})
    for cell in suite.cells:
        _case(whole, suite, cell)
    for element in (root, whole):
        _count(element, suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(whole: ElementTree.Element, suite: Suite, cell: Cell) -> None:
    attributes = {
        "classname": f"{printable(suite.name, 80)}.{printable(cell.workload, 80)}.{printable(cell.client, 80)}",
        "name": printable(cell.name, 400),
        "time": f"{cell.duration_s or 0.0:.3f}",
    }
    case = ElementTree.SubElement(whole, "testcase", attributes)
    properties = ElementTree.SubElement(case, "properties")
    for key, value in (("seed", cell.seed), ("kafka", cell.kafka), ("report", report_of(cell))):
        if value is not None:
            ElementTree.SubElement(properties, "property", {"name": key, "value": printable(value, 400)})
    tag = TAGS.get(cell.state)
    if tag is not None:
        told = {"message": printable(_message(cell), 1000)}
        if tag != "skipped":
            told["type"] = str(cell.state)
        element = ElementTree.SubElement(case, tag, told)
        if tag != "skipped":
            element.text = "\n".join([*filter(None, [lead(cell)]), *places(cell)]) or None
    lines = [f"repeat: {cell.command}", *places(cell)]
    output = ElementTree.SubElement(case, "system-out")
    output.text = "\n".join(printable(line, 4000) for line in lines)


def _message(cell: Cell) -> str:
    """The anomalies and the reason."""
    if cell.state is State.KNOWN:
        return f"known: {cell.known}"
    names = ", ".join(cell.anomalies)
    reason = cell.reason or str(cell.state)
    return f"{names}: {reason}" if names else reason


def _count(element: ElementTree.Element, suite: Suite) -> None:
    element.set("tests", str(len(suite.cells)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(TAGS.get(cell.state) == tag for cell in suite.cells)))
    element.set("time", f"{sum(cell.duration_s or 0.0 for cell in suite.cells):.3f}")

"""Verdicts as JUnit XML, for tools that read test results.

A run is a test suite. Its first case is the verdict. Then there is one case for each check, each fault, and each
reason for an unknown verdict.

Failure: an anomaly that the guarantee forbids. Error: something is unknown. Skipped: not checked, or not
exercised.
"""

from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree

from harness.common.wording import printable
from harness.results.verdict import AnomalyFindings, FaultReport, Validity, Verdict
from reports.findings_text import describe_count, example_sentences
from reports.liveness_text import describe_recovery

MOST_EXAMPLES = 10
Case = ElementTree.Element


def junit(verdicts: Sequence[tuple[Verdict, float]]) -> str:
    """Return the XML document for pairs of (verdict, duration in seconds)."""
    root = ElementTree.Element("testsuites", {"name": "fencepost"})
    for verdict, duration_s in verdicts:
        _suite(root, verdict, duration_s)
    _count(root, root.iter("testcase"))
    root.set("time", f"{sum(duration for _, duration in verdicts):.3f}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: Case, verdict: Verdict, duration_s: float) -> None:
    name = printable(verdict.name, 80)
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, "time": f"{duration_s:.3f}"})
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in (("history", verdict.history), ("seed", verdict.seed)):
        ElementTree.SubElement(properties, "property", {"name": key, "value": printable(value, 400)})
    cases = _Cases(suite, name)
    _verdict_case(cases.add("verdict", "verdict", duration_s), verdict)
    named = dict.fromkeys([*verdict.anomalies, *verdict.not_checked_because, *verdict.checked])
    for check in named:
        _check_case(cases.add("checks", check), check, verdict)
    for number, fault in enumerate(verdict.faults, 1):
        _fault_case(cases.add("faults", f"{number} {fault.fault} on {fault.target}"), fault)
    for goal, why in verdict.not_exercised.items():
        _add(cases.add("goals", goal), "skipped", why)
    for number, reason in enumerate(verdict.unknown_because, 1):
        _add(cases.add("evidence", f"{number} {reason.text}"), "error", reason.text, kind=reason.code)
    _count(suite, suite.iter("testcase"))


class _Cases:
    """Makes the cases of one suite."""

    def __init__(self, suite: Case, name: str) -> None:
        self._suite, self._name = suite, name

    def add(self, group: str, name: str, time_s: float = 0.0) -> Case:
        attributes = {"classname": f"{self._name}.{group}", "name": printable(name), "time": f"{time_s:.3f}"}
        return ElementTree.SubElement(self._suite, "testcase", attributes)


def _verdict_case(case: Case, verdict: Verdict) -> None:
    if verdict.validity is Validity.INVALID:
        _add(case, "failure", verdict.summary, kind="invalid")
    elif verdict.validity is Validity.UNKNOWN:
        _add(
            case,
            "error",
            verdict.summary,
            "\n".join(reason.text for reason in verdict.unknown_because),
            kind="unknown",
        )


def _check_case(case: Case, check: str, verdict: Verdict) -> None:
    findings = verdict.anomalies.get(check)
    if findings is not None:
        words = describe_count(check, findings)
        if findings.allowed:
            _add(case, "system-out", None, f"{'warning' if findings.warning else 'allowed'}: {words}")
        else:
            _add(case, "failure", words, "\n".join(_examples(check, findings)), kind=check)
    elif check in verdict.not_checked_because:
        _add(case, "skipped", f"not checked: {verdict.not_checked_because[check].text}")
    else:
        for reason in verdict.unknown_because:
            if reason.subject == check:
                _add(case, "error", reason.text, kind=reason.code)
                break


def _examples(check: str, findings: AnomalyFindings) -> Iterator[str]:
    if findings.because:
        yield f"follows from {findings.because}"
    yield from example_sentences(check, findings)[:MOST_EXAMPLES]
    if findings.count > min(len(findings.examples), MOST_EXAMPLES):
        yield f"{findings.count} in all"


def _fault_case(case: Case, fault: FaultReport) -> None:
    if fault.acted:
        _add(case, "system-out", None, "\n".join(filter(None, [fault.evidence, _recovery(fault)])))
    else:
        _add(case, "error", "the fault did not act", fault.evidence, kind="did-not-act")


def _recovery(fault: FaultReport) -> str:
    recovery = describe_recovery(fault.liveness)
    return f"recovery: {recovery}" if recovery else ""


def _add(case: Case, tag: str, message: str | None, text: str = "", kind: str = "") -> None:
    attributes = {} if message is None else {"message": printable(message, 1000)}
    if kind:
        attributes["type"] = printable(kind, 80)
    lines = [printable(line, 2000) for line in text.split("\n")]
    ElementTree.SubElement(case, tag, attributes).text = "\n".join(lines) if text else None


def _count(element: Case, cases: Iterable[Case]) -> None:
    cases = list(cases)
    element.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(case.find(tag) is not None for case in cases)))

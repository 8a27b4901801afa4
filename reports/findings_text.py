"""Sentences about findings, escaped for display. A finding without its own words gets a plain sentence."""

from collections.abc import Sequence

from harness.common.wording import join_words, number, plural, printable
from harness.results.example import describe_example
from harness.results.verdict import AnomalyFindings, IndeterminateOperations


def describe_count(anomaly: str, findings: AnomalyFindings) -> str:
    """Return for example `3 outputs were made twice for one input`."""
    if findings.words:
        return printable(findings.words, 300)
    return f"{printable(anomaly, 60)} was found {'once' if findings.count == 1 else number(findings.count) + ' times'}"


def describe_permitted(findings: AnomalyFindings) -> str:
    """Return for example `41 more are permitted by the guarantee of their stage`; empty if there are none."""
    if not findings.permitted:
        return ""
    are = "is" if findings.permitted == 1 else "are"
    return f"{number(findings.permitted)} more {are} permitted by the guarantee of their stage"


def describe_meaning(findings: AnomalyFindings) -> str:
    """Return what the anomaly is."""
    return (
        printable(findings.meaning, 1000) or "The checker of this name found a contradiction in the evidence."
    )


def example_sentences(anomaly: str, findings: AnomalyFindings) -> Sequence[str]:
    """Return one sentence for each example, without a full stop."""
    sentences = [printable(sentence, 5000) for sentence in findings.sentences[: len(findings.examples)]]
    return [
        *sentences,
        *(describe_example(anomaly, example) for example in findings.examples[len(sentences) :]),
    ]


def first_example_sentence(anomaly: str, findings: AnomalyFindings) -> str:
    """Return the sentence of the first example."""
    return example_sentences(anomaly, findings)[0]


def describe_indeterminate(findings: IndeterminateOperations) -> str:
    """Return how many operations are indeterminate, and the first of them."""
    named = join_words(operation.words for operation in findings.examples[:3])
    return (
        f"{plural(findings.count, 'operation')} without a known outcome: no response, no marker and no read shows "
        f"whether {'it' if findings.count == 1 else 'they'} took effect; the first: {named}"
    )

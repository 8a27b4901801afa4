"""A finding in the words that its verdict has for it. A verdict that has none is told all the same, plainly."""

from collections.abc import Sequence

from harness.results.example import describe_example, describe_operation
from harness.results.verdict import AnomalyFindings, IndeterminateOperations
from harness.results.wording import join_words, number, plural, printable


def describe_count(anomaly: str, findings: AnomalyFindings) -> str:
    """`3 outputs were made twice for one input`."""
    if findings.words:
        return printable(findings.words, 300)
    return f"{printable(anomaly, 60)} was found {'once' if findings.count == 1 else number(findings.count) + ' times'}"


def describe_permitted(findings: AnomalyFindings) -> str:
    """`41 more are permitted by the guarantee of their stage`; empty where none is."""
    if not findings.permitted:
        return ""
    are = "is" if findings.permitted == 1 else "are"
    return f"{number(findings.permitted)} more {are} permitted by the guarantee of their stage"


def describe_meaning(findings: AnomalyFindings) -> str:
    """What the anomaly is."""
    return (
        printable(findings.meaning, 1000) or "The checker of this name found a contradiction in the evidence."
    )


def example_sentences(anomaly: str, findings: AnomalyFindings) -> Sequence[str]:
    """Each example in a sentence, without a full stop; safe to show."""
    sentences = [printable(sentence, 5000) for sentence in findings.sentences[: len(findings.examples)]]
    return [
        *sentences,
        *(describe_example(anomaly, example) for example in findings.examples[len(sentences) :]),
    ]


def first_example_sentence(anomaly: str, findings: AnomalyFindings) -> str:
    """The first example in a sentence."""
    return example_sentences(anomaly, findings)[0]


def describe_indeterminate(findings: IndeterminateOperations) -> str:
    """How many operations nobody can say of whether they took effect, and which."""
    named = join_words(describe_operation(example) for example in findings.examples[:3])
    return (
        f"{plural(findings.count, 'operation')} whose client was told nothing, and no marker and no read tells "
        f"whether {'it' if findings.count == 1 else 'they'} took effect; the first: {named}"
    )

"""A finding in the words that its verdict has for it. A verdict that has none is told all the same, plainly."""

from collections.abc import Sequence

from harness.results.example import describe_example, describe_operation
from harness.results.verdict import AnomalyFindings, IndeterminateOperations
from harness.results.wording import join_words, number, plural, printable


def counted(anomaly: str, found: AnomalyFindings) -> str:
    """`3 outputs were made twice for one input`."""
    if found.words:
        return printable(found.words, 300)
    return (
        f"{printable(anomaly, 60)} was found {'once' if found.count == 1 else number(found.count) + ' times'}"
    )


def permitted(found: AnomalyFindings) -> str:
    """`41 more are permitted by the guarantee of their stage`; empty where none is."""
    if not found.permitted:
        return ""
    are = "is" if found.permitted == 1 else "are"
    return f"{number(found.permitted)} more {are} permitted by the guarantee of their stage"


def meaning(found: AnomalyFindings) -> str:
    """What the anomaly is."""
    return printable(found.meaning, 1000) or "The checker of this name found a contradiction in the evidence."


def sentences(anomaly: str, found: AnomalyFindings) -> Sequence[str]:
    """Each example in a sentence, without a full stop; safe to show."""
    told = [printable(sentence, 5000) for sentence in found.sentences[: len(found.examples)]]
    return [*told, *(describe_example(anomaly, example) for example in found.examples[len(told) :])]


def sentence(anomaly: str, found: AnomalyFindings) -> str:
    """The first example in a sentence."""
    return sentences(anomaly, found)[0]


def unsettled(found: IndeterminateOperations) -> str:
    """How many operations nobody can say of whether they took effect, and which."""
    named = join_words(describe_operation(example) for example in found.examples[:3])
    return (
        f"{plural(found.count, 'operation')} whose client was told nothing, and no marker and no read tells "
        f"whether {'it' if found.count == 1 else 'they'} took effect; the first: {named}"
    )

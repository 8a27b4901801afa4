"""What the exceptions of Kafka's Java client mean: `harness.clients.error_table`, asked by class.

The first row that an exception, or a cause of it, is an instance of decides: what is fatal stands before what is
only abortable, for the client wraps the first error in a `KafkaException` of its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jpype

from harness.clients.error_table import JAVA_ROWS
from harness.clients.interface import ClientError, ErrorMeaning
from harness.clients.jvm import java_class, text


def classify(error: BaseException) -> ClientError | None:
    """What a Java exception means, or one of its causes; None: it is not Java's."""
    if not isinstance(error, jpype.JException):
        return None
    chain = [error]
    while (cause := chain[-1].getCause()) is not None and len(chain) < 10:
        chain.append(cause)
    found = next(
        (meaning for kind, meaning in _meanings() if any(isinstance(one, kind) for one in chain)),
        ErrorMeaning.UNKNOWN,
    )
    words = "; caused by ".join(
        f"{text(one.getClass().getSimpleName())}: {text(one.getMessage())}" for one in chain
    )
    return ClientError(found, words)


@cache
def _meanings() -> list[tuple[Any, ErrorMeaning]]:
    """Class and meaning of each row; a client of another version may lack some."""
    there = ((_class(row.exception), row.java) for row in JAVA_ROWS)
    return [(kind, meaning) for kind, meaning in there if kind is not None and meaning is not None]


def _class(name: str | None) -> Any:
    try:
        return name and java_class(name)
    except TypeError:
        return None


@contextmanager
def translate_errors() -> Iterator[None]:
    """The library's exceptions as `ClientError`."""
    try:
        yield
    except jpype.JException as error:
        known = classify(error)
        assert known is not None
        raise known from None

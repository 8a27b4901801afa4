"""Classify the exceptions of Kafka's Java client by `harness.clients.error_table`.

The first row whose class matches the exception, or one of its causes, decides. Fatal classes come before abortable
classes in the table, because the client wraps the first error in a `KafkaException`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jpype

from harness.clients.error_table import JAVA_ROWS
from harness.clients.in_process_jvm import java_class, text
from harness.clients.interface import ClientError, ErrorMeaning


def classify(error: BaseException) -> ClientError | None:
    """Translate a Java exception. Return None for any other exception."""
    if not isinstance(error, jpype.JException):
        return None
    chain = [error]
    while (cause := chain[-1].getCause()) is not None and len(chain) < 10:
        chain.append(cause)
    meaning = next(
        (meaning for kind, meaning in _meanings() if any(isinstance(link, kind) for link in chain)),
        ErrorMeaning.UNKNOWN,
    )
    message = "; caused by ".join(
        f"{text(link.getClass().getSimpleName())}: {text(link.getMessage())}" for link in chain
    )
    return ClientError(meaning, message)


@cache
def _meanings() -> list[tuple[Any, ErrorMeaning]]:
    """Return class and meaning of each row. Rows whose class is not in this version of the client are left out."""
    rows = ((_class(row.exception), row.java) for row in JAVA_ROWS)
    return [(kind, meaning) for kind, meaning in rows if kind is not None and meaning is not None]


def _class(name: str | None) -> Any:
    try:
        return name and java_class(name)
    except TypeError:
        return None


@contextmanager
def translate_errors() -> Iterator[None]:
    """Inside a `with` block, translate Java exceptions into `ClientError`."""
    try:
        yield
    except jpype.JException as error:
        client_error = classify(error)
        assert client_error is not None
        raise client_error from None

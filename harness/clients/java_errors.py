"""What the errors of Kafka's Java client mean, each with the text that says so.

The first line that an exception, or a cause of it, is an instance of decides: what is fatal stands before what is
only abortable, for the client wraps the first error in a `KafkaException` of its own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import jpype

from harness.clients.interface import ClientError, Failure
from harness.clients.jvm import java_class, text

ERRORS = "org.apache.kafka.common.errors"


@dataclass(frozen=True)
class Meaning:
    """What one class of exceptions means."""

    name: str  # of the class
    failure: Failure
    source: str  # a KIP, an issue, or the client's own documentation

    @property
    def short(self) -> str:
        """Without its package."""
        return self.name.rpartition(".")[2]


MEANINGS: Sequence[Meaning] = (
    Meaning(f"{ERRORS}.ProducerFencedException", Failure.FENCED, "KIP-98; KIP-360"),
    Meaning(f"{ERRORS}.FencedInstanceIdException", Failure.FENCED, "KIP-345"),
    Meaning(f"{ERRORS}.AuthorizationException", Failure.FATAL, "KIP-98"),
    Meaning(f"{ERRORS}.AuthenticationException", Failure.FATAL, "KIP-152"),
    Meaning(f"{ERRORS}.UnsupportedVersionException", Failure.FATAL, "KIP-98"),
    Meaning(f"{ERRORS}.InvalidTxnStateException", Failure.FATAL, "KIP-98"),
    Meaning(f"{ERRORS}.InvalidPidMappingException", Failure.FATAL, "KIP-1050: a new producer recovers"),
    Meaning("java.lang.IllegalStateException", Failure.FATAL, "KafkaProducer: a call out of its order"),
    Meaning(f"{ERRORS}.TransactionAbortableException", Failure.ABORTABLE, "KIP-890"),
    Meaning(
        f"{ERRORS}.InvalidProducerEpochException",
        Failure.ABORTABLE,
        "KIP-588: who is fenced learns it by aborting",
    ),
    Meaning(f"{ERRORS}.OutOfOrderSequenceException", Failure.ABORTABLE, "KIP-360"),
    Meaning(f"{ERRORS}.UnknownProducerIdException", Failure.ABORTABLE, "KIP-360"),
    Meaning("org.apache.kafka.clients.consumer.CommitFailedException", Failure.ABORTABLE, "KIP-447"),
    Meaning(f"{ERRORS}.IllegalGenerationException", Failure.ABORTABLE, "KIP-447"),
    Meaning(f"{ERRORS}.UnknownMemberIdException", Failure.ABORTABLE, "KIP-447"),
    Meaning(f"{ERRORS}.RecordTooLargeException", Failure.ABORTABLE, "KafkaProducer.send"),
    Meaning(f"{ERRORS}.InterruptException", Failure.UNKNOWN, "KafkaProducer: the call may go on"),
    Meaning(f"{ERRORS}.TimeoutException", Failure.RETRIABLE, "KIP-691: the same call may be made again"),
    Meaning(f"{ERRORS}.RetriableException", Failure.RETRIABLE, "KIP-691"),
    Meaning(
        "org.apache.kafka.common.KafkaException", Failure.ABORTABLE, "KafkaProducer: abort, and try again"
    ),
)
"""In the order in which they are tried."""


def classify(error: BaseException) -> ClientError | None:
    """What a Java exception means, or one of its causes; None: it is not Java's."""
    if not isinstance(error, jpype.JException):
        return None
    chain = [error]
    while (cause := chain[-1].getCause()) is not None and len(chain) < 10:
        chain.append(cause)
    found = next(
        (failure for kind, failure in _meanings() if any(isinstance(one, kind) for one in chain)),
        Failure.UNKNOWN,
    )
    words = "; caused by ".join(
        f"{text(one.getClass().getSimpleName())}: {text(one.getMessage())}" for one in chain
    )
    return ClientError(found, words)


@cache
def _meanings() -> list[tuple[Any, Failure]]:
    return [(java_class(meaning.name), meaning.failure) for meaning in MEANINGS]


@contextmanager
def translated() -> Iterator[None]:
    """The library's exceptions as `ClientError`."""
    try:
        yield
    except jpype.JException as error:
        known = classify(error)
        assert known is not None
        raise known from None

"""Producers that record their operations in the journal: sends, transactions, and their outcomes.

Two rules of the protocol matter. After a retriable error, a second call of commit resumes the first one. After a fatal
error the producer cannot be used, and the InitProducerId of the next producer ends the open transaction.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from harness.clients.interface import (
    RETRY_S,
    Client,
    ClientError,
    ErrorMeaning,
    PartitionOffset,
    ProducerClient,
    ProducerSettings,
    TransactionalClient,
)
from harness.model.vocabulary import Outcome
from harness.record.events import REFUSED, Ack, Completed, EndInvoked, ErrorNoted, Invoked
from harness.record.journal import Journal
from harness.record.naming import Headers
from harness.roles.control import Calls, Control

FLUSH_TIMEOUT_S = 60.0
STEP_TIMEOUT_S = 10.0
COMMIT_TIMEOUT_S = 40.0
"""How long a commit is retried. After that, its outcome is not known."""


class DeliveryFailed(Exception):
    """A record was not acknowledged, or the client's queue remained full."""


class RecordSender:
    """Sends the records of one operation.

    `acks[n]` is the acknowledgement of the n-th record, `REFUSED` if the client refused the record, or None.

    Args:
        producer: the client.
        count: the number of records of the operation.
        skips_refused_records: skip a record that the client refuses, instead of raising its error.
    """

    def __init__(self, producer: ProducerClient, count: int, *, skips_refused_records: bool = False) -> None:
        self._producer = producer
        self._skips_refused_records = skips_refused_records
        self._queued: list[int] = []  # numbers of the records that were passed to the client
        self.acks: list[Ack | None] = [None] * count

    def send(
        self,
        n: int,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int | None = None,
        *,
        partition: int | None = None,
    ) -> None:
        """Send the n-th record. Wait while the client's queue is full.

        Raises `ClientError`, and `DeliveryFailed` if the queue remains full.
        """
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        self._queued.append(n)
        try:
            on_delivery = partial(self._on_delivery, n)
            while not self._producer.send(
                topic, key, value, headers, on_delivery, timestamp_ms, partition=partition
            ):
                if time.monotonic() > deadline:
                    raise DeliveryFailed(f"the producer's queue remained full for {FLUSH_TIMEOUT_S:g} s")
                self._producer.poll(0.05)
        except ClientError:
            if not self._skips_refused_records:
                raise
            self.acks[n] = REFUSED

    def flush(self) -> None:
        """Wait until all records are acknowledged. Raises `DeliveryFailed`."""
        remaining = self._producer.flush(FLUSH_TIMEOUT_S)
        missing = [self.acks[n] for n in self._queued].count(None)
        if missing:
            raise DeliveryFailed(
                f"{missing} of {len(self._queued)} records not acknowledged, {remaining} still queued"
            )

    def _on_delivery(self, n: int, partition: int | None, offset: int | None, error: str | None) -> None:
        if error is None and partition is not None:
            self.acks[n] = (partition, offset)


@dataclass(frozen=True)
class ErrorHandling:
    """How a worker handles errors of a transaction. The defaults are correct; defects change them."""

    skips_refused_records: bool = False  # if the client refuses a record, commit the transaction without it
    commit_timeout_s: float = COMMIT_TIMEOUT_S


DEFAULT_HANDLING = ErrorHandling()


@dataclass
class TransactionErrors:
    """Errors of a transaction."""

    error: str | None = None
    is_unexpected: bool = False  # the error is not from the client library
    abort_error: str | None = None


class Transaction(RecordSender):
    """One transaction, with its acknowledgements and its outcome."""

    def __init__(
        self,
        producer: TransactionalClient,
        op: int,
        journal: Journal,
        count: int,
        calls: Calls,
        handling: ErrorHandling = DEFAULT_HANDLING,
    ) -> None:
        super().__init__(producer, count, skips_refused_records=handling.skips_refused_records)
        self._commit_timeout_s = handling.commit_timeout_s
        self._transactional = producer
        self._calls = calls
        self.op = op
        self._journal = journal
        self.commit_invoked = False
        self.acks_recorded = False  # the journal has the acknowledgements
        self.outcome = Outcome.INFO
        self.fenced = False

    def begin(self) -> None:
        self._transactional.begin()

    def send_offsets(self, offsets: Sequence[PartitionOffset], membership: Any) -> None:
        call = partial(self._transactional.send_offsets, offsets, membership, STEP_TIMEOUT_S)
        self._retry("send_offsets_to_transaction", call)

    def abort(self) -> None:
        """Abort the transaction because the workload wants it, and not after an error."""
        self._record_end("abort")
        self.outcome = Outcome.FAIL
        self._retry("abort_transaction", partial(self._transactional.abort, STEP_TIMEOUT_S))

    def commit(self, pause: Callable[[], None], is_armed: bool) -> None:
        """Commit. With `is_armed`, a fault waits for the commit step: call `pause` while the commit is in progress."""
        self._record_end("commit")
        self.commit_invoked = True
        call = partial(self._transactional.commit, min(STEP_TIMEOUT_S, self._commit_timeout_s))
        watched = partial(self._calls.during, "commit_transaction", self.op, call)
        commit = partial(retry, watched, self._journal, self.op, self._commit_timeout_s)
        if is_armed:
            _run_alongside(commit, pause)
        else:
            commit()
        self.outcome = Outcome.OK

    def _retry(self, name: str, call: Callable[[], None]) -> None:
        retry(partial(self._calls.during, name, self.op, call), self._journal, self.op)

    def _record_end(self, end: Literal["commit", "abort"]) -> None:
        self._journal.write(EndInvoked(end, self.op, self.acks))
        self.acks_recorded = True


class TransactionalProducer:
    """Runs transactions on a producer, and creates a new producer after every fatal error."""

    def __init__(
        self,
        client: Client,
        settings: ProducerSettings,
        transactional_id: str,
        journal: Journal,
        control: Control,
        handling: ErrorHandling = DEFAULT_HANDLING,
    ) -> None:
        self._client = client
        self._settings = settings
        self._handling = handling
        self.transactional_id = transactional_id
        self._journal = journal
        self._control = control
        self._calls = control.calls
        self._producer: TransactionalClient | None = None
        self.lost_by: list[str] = []  # the errors after which a new producer was needed
        self.last_error = ""  # of a transaction

    @property
    def usable(self) -> bool:
        """Return whether there is a producer without a fatal error."""
        return self._producer is not None

    def open(self, process: int) -> None:
        """Create a producer and initialise its transactional id, unless there is a usable one.

        This fences the previous producer of the id and ends its transaction. The initialisation is repeated until it
        succeeds, until the run says stop, or until the run has replaced this worker. A worker that was replaced must
        not repeat it, because it would fence its own replacement.
        """
        while self._producer is None and not (self._control.stopping or self._control.replaced):
            self._control.listen()
            op = self._journal.number()
            self._journal.write(Invoked("init", process, op, transactional_id=self.transactional_id))
            producer = self._client.producer(self._settings, self.transactional_id)
            try:
                call = partial(producer.init, STEP_TIMEOUT_S)
                retry(partial(self._calls.during, "init_transactions", op, call), self._journal, op)
            except ClientError as error:
                producer.discard()  # otherwise its request could still take effect, and fence the next producer
                self.lost_by.append(str(error))
                self._journal.write(Completed(Outcome.INFO, "init", process, op, error=str(error)))
                self._control.listen(RETRY_S)
            else:
                self._journal.write(Completed(Outcome.OK, "init", process, op))
                self._producer = producer

    def close(self) -> None:
        """Discard the producer without ending its transaction. The next producer of the id ends it."""
        self._discard()

    @contextmanager
    def transaction(self, op: int, process: int, count: int) -> Iterator[Transaction]:
        """Yield a transaction that the caller begins. On every exit, record the completion with its errors.

        An exception from the `with` block is recorded and not raised.
        """
        if self._producer is None:
            raise AssertionError("transaction before open")
        txn = Transaction(self._producer, op, self._journal, count, self._calls, self._handling)
        errors = TransactionErrors()
        try:
            yield txn
        except ClientError as error:
            self._handle(error, txn, errors)
        except DeliveryFailed as error:
            txn.outcome = Outcome.FAIL
            errors.error = str(error)
            self._abort(txn, errors)
        except Exception as error:  # noqa: BLE001 - any error of the transaction must be recorded
            client_error = self._client.classify(error)
            if client_error is not None:
                self._handle(client_error, txn, errors)
            else:
                txn.outcome = outcome_of_error(txn.commit_invoked)
                errors.error, errors.is_unexpected = repr(error), True
                self.lost_by.append(repr(error))
                self._discard()
        self.last_error = errors.error or self.last_error
        self._journal.write(
            Completed(
                txn.outcome,
                "txn",
                process,
                op,
                acks=None if txn.acks_recorded else txn.acks,
                error=errors.error,
                fenced=txn.fenced,
                surprise=errors.is_unexpected,
                abort_error=errors.abort_error,
            )
        )

    def _handle(self, error: ClientError, txn: Transaction, errors: TransactionErrors) -> None:
        """Set the outcome that the error proves, and abort the transaction or discard the producer."""
        txn.outcome = outcome_of_error(txn.commit_invoked)
        txn.fenced = error.meaning is ErrorMeaning.FENCED
        errors.error = str(error)
        if error.meaning is ErrorMeaning.ABORTABLE:
            self._abort(txn, errors)
        else:  # fatal, fenced, or no response in time: the next producer ends the transaction
            self.lost_by.append(str(error))
            self._discard()

    def _abort(self, txn: Transaction, errors: TransactionErrors) -> None:
        """Abort the transaction, so that the producer can begin another. If this fails, discard the producer."""
        if self._producer is None:
            return
        try:
            call = partial(self._producer.abort, STEP_TIMEOUT_S)
            retry(partial(self._calls.during, "abort_transaction", txn.op, call), self._journal, txn.op)
        except ClientError as error:
            errors.abort_error = str(error)
            txn.fenced = txn.fenced or error.meaning is ErrorMeaning.FENCED
            self.lost_by.append(str(error))
            self._discard()

    def _discard(self) -> None:
        if self._producer is not None:
            self._producer.discard()
        self._producer = None


def retry(call: Callable[[], None], journal: Journal, op: int, timeout_s: float = COMMIT_TIMEOUT_S) -> None:
    """Repeat a call after retriable errors until `timeout_s` has passed. Each error is noted in the journal.

    Raises the last `ClientError`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return call()
        except ClientError as error:
            if error.meaning is not ErrorMeaning.RETRIABLE or time.monotonic() > deadline:
                raise
            journal.write(ErrorNoted(op=op, retried=str(error)))


def outcome_of_error(commit_invoked: bool) -> Outcome:
    """Return the outcome of a transaction in which an error occurred.

    Before the commit was invoked, EndTxn(commit) cannot have been sent, so the outcome is `fail`. After that it is
    `info` for every error, including fencing: if a successful commit is repeated after a successor has begun, the
    response is INVALID_PRODUCER_EPOCH.
    """
    return Outcome.INFO if commit_invoked else Outcome.FAIL


def _run_alongside(commit: Callable[[], None], pause: Callable[[], None]) -> None:
    """Run `commit` in a second thread while `pause` runs in this thread. Raise the error of `commit`."""
    with ThreadPoolExecutor(1, thread_name_prefix="commit") as pool:
        result = pool.submit(commit)
        pause()
        result.result()

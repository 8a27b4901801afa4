"""A transactional producer that records what it does, and knows what its errors prove.

What matters of the protocol: commit may be asked for again after a retriable error
and resumes; a fatal error ends the producer, and the next one's InitProducerId settles what was open.
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
    ProducerSettings,
    StartPosition,
    TransactionalClient,
)
from harness.model.vocabulary import Outcome
from harness.record.events import Completed, EndInvoked, ErrorNoted, Invoked
from harness.record.journal import Journal
from harness.roles.calls import Calls
from harness.roles.control import Control
from harness.roles.sending import DeliveryFailed, RecordSender

STEP_TIMEOUT_S = 10.0
COMMIT_PATIENCE_S = 40.0
"""How long a commit is asked for again before its outcome is called unknown."""


@dataclass(frozen=True)
class ErrorHandling:
    """How a producer's owner takes what goes wrong; the default is right."""

    skips_refused_records: bool = (
        False  # a record that the client itself refuses is left out, and the rest is committed
    )
    commit_timeout_s: float = COMMIT_PATIENCE_S


DEFAULT_HANDLING = ErrorHandling()


@dataclass
class TransactionErrors:
    """What went wrong in a transaction."""

    error: str | None = None
    surprise: bool = False  # of a kind that nobody foresaw
    abort_error: str | None = None


class Transaction(RecordSender):
    """One transaction: its acknowledgements, and how it ended."""

    def __init__(
        self,
        producer: TransactionalClient,
        op: int,
        journal: Journal,
        count: int,
        calls: Calls,
        handling: ErrorHandling = DEFAULT_HANDLING,
    ) -> None:
        super().__init__(producer, count, lenient=handling.skips_refused_records)
        self._patience_s = handling.commit_timeout_s
        self._transactional = producer
        self._calls = calls
        self.op = op
        self._journal = journal
        self.commit_invoked = False
        self.told = False  # the acknowledgements stand in the journal
        self.outcome = Outcome.INFO
        self.fenced = False

    def begin(self) -> None:
        """Begin it at the client; whatever is sent before is not part of it."""
        self._transactional.begin()

    def send_offsets(self, offsets: Sequence[StartPosition], membership: Any) -> None:
        """Add the input positions to the transaction."""
        call = partial(self._transactional.send_offsets, offsets, membership, STEP_TIMEOUT_S)
        self._retried("send_offsets_to_transaction", call)

    def abort(self) -> None:
        """End it without effect, on purpose."""
        self._tell("abort")
        self.outcome = Outcome.FAIL
        self._retried("abort_transaction", partial(self._transactional.abort, STEP_TIMEOUT_S))

    def commit(self, reach: Callable[[], None], struck: bool) -> None:
        """Commit; if a fault is armed on the very commit, be at that step while it is under way."""
        self._tell("commit")
        self.commit_invoked = True
        call = partial(self._transactional.commit, min(STEP_TIMEOUT_S, self._patience_s))
        named = partial(self._calls.during, "commit_transaction", self.op, call)
        commit = partial(retry, named, self._journal, self.op, self._patience_s)
        if struck:
            _beside(commit, reach)
        else:
            commit()
        self.outcome = Outcome.OK

    def _retried(self, name: str, act: Callable[[], None]) -> None:
        retry(partial(self._calls.during, name, self.op, act), self._journal, self.op)

    def _tell(self, end: Literal["commit", "abort"]) -> None:
        self._journal.write(EndInvoked(end, self.op, self.acks))
        self.told = True


class TransactionalProducer:
    """A producer of transactions, made anew after every fatal error."""

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

    @property
    def usable(self) -> bool:
        """Whether there is a producer that has not met a fatal error."""
        return self._producer is not None

    def open(self, process: int) -> None:
        """Initialise the transactional id: fences whoever held it, and ends what it left open.

        Asks again until it succeeds, or the run says stop, or another has taken the place of this worker: whoever was
        replaced would fence its own replacement.
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
                producer.discard()  # else its request could still be answered, and fence the next one
                self._journal.write(Completed(Outcome.INFO, "init", process, op, error=str(error)))
                self._control.listen(RETRY_S)
            else:
                self._journal.write(Completed(Outcome.OK, "init", process, op))
                self._producer = producer

    def close(self) -> None:
        """Have no more to do with the id: whoever takes it next settles what is open."""
        self._discard()

    @contextmanager
    def transaction(self, op: int, process: int, count: int) -> Iterator[Transaction]:
        """A transaction, which the caller begins; its completion is written however it ends, and no cause is unsaid."""
        if self._producer is None:
            raise AssertionError("transaction before open")
        txn = Transaction(self._producer, op, self._journal, count, self._calls, self._handling)
        errors = TransactionErrors()
        try:
            yield txn
        except ClientError as error:
            self._failed(txn, error, errors)
        except DeliveryFailed as error:
            txn.outcome = Outcome.FAIL
            errors.error = str(error)
            self._abort(txn, errors)
        except Exception as error:  # noqa: BLE001 - the one broad except: it failed as nobody foresaw
            known = self._client.classify(error)
            if known is not None:
                self._failed(txn, known, errors)
            else:
                txn.outcome = outcome_of_error(txn.commit_invoked)
                errors.error, errors.surprise = repr(error), True
                self._discard()
        self._journal.write(
            Completed(
                txn.outcome,
                "txn",
                process,
                op,
                acks=None if txn.told else txn.acks,
                error=errors.error,
                fenced=txn.fenced,
                surprise=errors.surprise,
                abort_error=errors.abort_error,
            )
        )

    def _failed(self, txn: Transaction, error: ClientError, errors: TransactionErrors) -> None:
        """What an error proves, and what it takes to go on."""
        txn.outcome = outcome_of_error(txn.commit_invoked)
        txn.fenced = error.meaning is ErrorMeaning.FENCED
        errors.error = str(error)
        if error.meaning is ErrorMeaning.ABORTABLE:
            self._abort(txn, errors)
        else:  # fatal, fenced, or no answer within the patience: a new producer settles it
            self._discard()

    def _abort(self, txn: Transaction, errors: TransactionErrors) -> None:
        """Put the producer back to where it can begin again, or give it up."""
        if self._producer is None:
            return
        try:
            call = partial(self._producer.abort, STEP_TIMEOUT_S)
            retry(partial(self._calls.during, "abort_transaction", txn.op, call), self._journal, txn.op)
        except ClientError as error:
            errors.abort_error = str(error)
            txn.fenced = txn.fenced or error.meaning is ErrorMeaning.FENCED
            self._discard()

    def _discard(self) -> None:
        """Give the producer up with all that it still holds."""
        if self._producer is not None:
            self._producer.discard()
        self._producer = None


def retry(act: Callable[[], None], journal: Journal, op: int, patience_s: float = COMMIT_PATIENCE_S) -> None:
    """Ask again after a retriable error, for as long as the patience lasts; each is noted."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return act()
        except ClientError as error:
            if error.meaning is not ErrorMeaning.RETRIABLE or time.monotonic() > deadline:
                raise
            journal.write(ErrorNoted(op=op, retried=str(error)))


def outcome_of_error(commit_invoked: bool) -> Outcome:
    """What an error proves of the transaction in which it came.

    Before the commit was invoked, EndTxn(commit) cannot have been sent: it failed. After, every
    error is `info`, fencing included: a retry of a commit that had succeeded is answered
    INVALID_PRODUCER_EPOCH once a successor has begun.
    """
    return Outcome.INFO if commit_invoked else Outcome.FAIL


def _beside(act: Callable[[], None], reach: Callable[[], None]) -> None:
    """Run `act` in a thread while this one is at the step; raise whatever it raised."""
    with ThreadPoolExecutor(1, thread_name_prefix="commit") as pool:
        committing = pool.submit(act)
        reach()
        committing.result()

"""The effect of a rule of the protocol proxy on some links."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

from msgspec import structs

from harness.common.errors import FaultFailed, WaitTimeout
from harness.common.waiting import wait_for
from harness.common.wording import plural
from harness.network import ApplyRule
from harness.protocol.observed_clients import ObservedClients
from harness.protocol.rules import ProtocolRule
from harness.protocol.state import ReleaseOrder, RuleStatus
from harness.record.protocol_journal import RequestRecord, read_requests

ANSWER_TIMEOUT_S = 10.0
"""How long the heal waits for the brokers' responses to the requests that it delivers."""
MAX_WORDS = 12
"""The evidence of a rule shows at most this many of the things that it did."""
_numbers = count(1)


class RuleTarget(Protocol):
    """The part of the protocol proxy's process that this module uses."""

    @property
    def problem(self) -> str:
        """Which process has ended, and the last line of its log. Empty while it runs."""
        ...

    @property
    def journal(self) -> Path:
        """The file of its journal."""
        ...

    def add(self, rule: ProtocolRule) -> RuleStatus:
        """Put a rule in force."""
        ...

    def status(self, rule: str) -> RuleStatus:
        """Return what a rule has done so far."""
        ...

    def release(self, order: ReleaseOrder) -> RuleStatus:
        """Deliver a request that a rule keeps. Do nothing if it was delivered."""
        ...

    def remove(self, rule: str) -> RuleStatus:
        """Deliver the messages that a rule keeps, and forget the rule once all are answered."""
        ...

    def undecoded(self) -> tuple[str, ...]:
        """Return which messages passed unchanged because they cannot be decoded, in words."""
        ...

    def observed_clients(self, links: Iterable[str]) -> ObservedClients | None:
        """Return what the requests on these links say about their clients. None: none of them passes through it."""
        ...


class RuleInForce:
    """An `ActiveEffect`: a rule that the protocol proxy applies."""

    def __init__(self, proxy: RuleTarget, links: Sequence[str], rule: ProtocolRule) -> None:
        self._proxy = proxy
        self._links = links
        self.rule = rule
        self.last: RuleStatus | None = None  # the status at the heal
        self._journal_start = proxy.journal.stat().st_size

    @property
    def links(self) -> Sequence[str]:
        """The names of the links."""
        return self._links

    @property
    def status(self) -> RuleStatus:
        """What the rule has done so far, or had done at the heal."""
        return self.last or self._proxy.status(self.rule.name)

    def release(self, number: int, reason: str, *, in_time: bool = True) -> None:
        """Deliver the request with this number.

        Args:
            number: The number of the request in the journal.
            reason: Completes "it was delivered ..." in the journal.
            in_time: Whether its release has come. Otherwise it is delivered only because the rule is healed.
        """
        self._proxy.release(ReleaseOrder(self.rule.name, number, reason, in_time))

    def requests(self) -> Iterator[RequestRecord]:
        """Yield the requests that were answered since the rule came into force, on all links of the proxy."""
        return read_requests(self._proxy.journal, self._journal_start)

    def evidence(self) -> str:
        """Return what the rule did. "" if no message is known to have been affected. The journal has everything."""
        status = self.status
        more = len(status.words) - MAX_WORDS
        shown = [
            *status.words[:MAX_WORDS],
            *([f"{more} more in the journal of the proxy"] if more > 0 else []),
        ]
        if status.missed:
            shown.append(
                f"{status.missed} of the {status.acted} were delivered although their release had not come"
            )
        return "; ".join(shown) if status.proved else ""

    @property
    def missing_proof(self) -> str:
        """Why there is no evidence. Empty if there is some."""
        status = self.status
        if status.proved:
            return ""
        if status.acted:
            why = "its release never came" if status.missed else "no effect of the rule is proved"
            return f"{why}: {'; '.join(status.words[-2:]) or 'it changed nothing'}"
        return f"the rule acted on none of the {self.rule.select}: {self._seen(status)}"

    def _seen(self, status: RuleStatus) -> str:
        apis = "|".join(self.rule.select.apis)
        seen = f"{status.matched} passed" if status.matched else "none was seen"
        if status.seen and not status.matched:
            seen = f"{plural(status.seen, f'{apis} request')} passed, and the rule selects none of them"
        if status.seen_before:
            seen += f"; {plural(status.seen_before, f'{apis} request')} came before the rule was in force"
        return seen


@contextmanager
def apply_rule(proxy: RuleTarget | None, links: Sequence[str], effect: ApplyRule) -> Iterator[RuleInForce]:
    """Put a rule in force for the length of a `with`. Raises `FaultFailed`."""
    if proxy is None or effect.rule is None:
        raise FaultFailed("no protocol proxy is on the links of this run")
    rule = structs.replace(effect.rule, name=f"{effect.rule.name}-{next(_numbers)}", links=tuple(links))
    proxy.add(rule)
    in_force = RuleInForce(proxy, links, rule)
    try:
        yield in_force
    finally:
        last = RuleStatus()

        def removed() -> bool:
            nonlocal last
            last = in_force.last = proxy.remove(rule.name)
            return not last.kept

        try:
            wait_for(
                removed,
                f"the responses to what {rule.name} kept",
                ANSWER_TIMEOUT_S,
                last_seen=lambda: "; ".join(last.words[-3:]),
            )
        except WaitTimeout as error:
            raise FaultFailed(str(error)) from error

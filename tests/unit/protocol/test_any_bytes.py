"""Whatever bytes come, the proxy goes on, and each message that no rule changes passes byte for byte."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from harness.protocol.frames import with_size
from harness.protocol.proxy import Listener, ProxyLink
from harness.protocol.responses import HOST
from harness.protocol.rules import Action, ClientConnection, ProtocolRule, Release, Selector, When
from harness.protocol.state import ProxyState
from harness.record.protocol_journal import ProxyJournal
from harness.wire.protocol import Address
from tests.support.protocol_link import LinkUnderTest, ProxyUnderTest
from tests.support.protocol_schemas import small_schemas

WITHIN_S = 10
APIS = ("EndTxn", "AddOffsetsToTxn", "Produce")
NAMELESS = {"TransactionalId": None, "ProducerId": 7, "ProducerEpoch": 0, "Committed": True}
LONG_ID = "shop-" + "x" * 200

Draw = Callable[[LinkUnderTest, int], bytes]
"""Makes the bytes of a request or response with a correlation id."""
CUTS = st.lists(st.integers(0, 2000), max_size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxy")


def with_body(key: int, version: int, correlation: int, body: bytes) -> bytes:
    """Return a request with a header of version 1 and any body."""
    numbers = key.to_bytes(2, signed=True) + version.to_bytes(2, signed=True) + correlation.to_bytes(4)
    return with_size(numbers + b"\0\6client" + body)


def cut_short(message: bytes, missing: int) -> bytes:
    """Return a message that ends too early, with the size that it now has."""
    return with_size(message[4 : max(8, len(message) - missing)])


def chunks(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@st.composite
def requests(draw: st.DrawFn) -> Draw:
    """A request: a correct one, one that is cut short, or one of an unknown API, version or body."""
    own_id = draw(st.sampled_from(["shop-1", "shop-2", LONG_ID]))
    version, missing = draw(st.integers(0, 5)), draw(st.integers(1, 30))
    key, unknown, body = draw(st.integers(-99, 99)), draw(st.integers(-9, 99)), draw(st.binary(max_size=40))
    acks = draw(st.sampled_from([-1, 0, 1]))
    makers: dict[str, Draw] = {
        "end": lambda link, number: link.end_txn(number, own_id=own_id, version=version),
        "produce": lambda link, number: link.produce(number, own_id=own_id, acks=acks, size=len(body)),
        "cut short": lambda link, number: cut_short(link.end_txn(number, own_id=own_id), missing),
        "produce cut short": lambda link, number: cut_short(link.produce(number), missing),
        "no name": lambda link, number: link.request("EndTxn", version, number, NAMELESS),
        "unknown version": lambda link, number: with_body(26, 6 + abs(unknown), number, body),
        "any": lambda link, number: with_body(key, unknown, number, body),
    }
    return makers[draw(st.sampled_from(sorted(makers)))]


@st.composite
def responses(draw: st.DrawFn) -> Draw:
    """A response: a correct one, one that is cut short, or one with any content."""
    api, error = draw(st.sampled_from(APIS)), draw(st.sampled_from(["NONE", "NOT_COORDINATOR"]))
    missing, body = draw(st.integers(1, 12)), draw(st.binary(max_size=30))
    makers: dict[str, Draw] = {
        "response": lambda link, number: link.response(api, number, error),
        "cut short": lambda link, number: cut_short(link.response(api, number, error), missing),
        "any": lambda link, number: with_size(number.to_bytes(4) + body),
    }
    return makers[draw(st.sampled_from(sorted(makers)))]


@given(
    st.lists(requests(), max_size=8),
    st.lists(responses(), max_size=8),
    CUTS,
    st.randoms(),
    st.booleans(),
    st.sampled_from([2, 9]),
)
def test_without_a_rule_every_message_passes_byte_for_byte(
    folder: Path,
    asked: list[Draw],
    answers: list[Draw],
    cuts: list[int],
    random: Random,
    ordered: bool,
    correlations: int,
) -> None:
    link = ProxyUnderTest(folder).link()
    sent = b"".join(make(link, number % correlations) for number, make in enumerate(asked, 1))
    numbers = list(range(1, len(answers) + 1))  # some have no request, and some requests no response
    if not ordered:
        random.shuffle(numbers)
    answered = b"".join(
        make(link, number % correlations) for number, make in zip(numbers, answers, strict=True)
    )
    for chunk in chunks(sent, cuts):
        link.send(chunk)
    assert link.broker.written == sent
    for chunk in chunks(answered, cuts):
        link.answer(chunk)
    assert link.client.written == answered


KEEPING = [
    ProtocolRule("r", Selector("EndTxn"), Action.DELAY, release=Release(after_s=1.0), times=None),
    ProtocolRule("r", Selector("Produce"), Action.DELAY, release=Release(after_s=1.0), times=2),
    ProtocolRule("r", Selector("EndTxn", "response"), Action.DELAY, release=Release(after_s=1.0), times=None),
    ProtocolRule("r", Selector("EndTxn"), Action.HOLD, client=ClientConnection.STALL),
    ProtocolRule("r", Selector("EndTxn", "response"), Action.HOLD, client=ClientConnection.STALL),
]
"""Rules that change no message and no order."""


@given(st.lists(requests(), max_size=8), CUTS, st.sampled_from(KEEPING))
def test_messages_that_are_only_kept_pass_byte_for_byte(
    folder: Path, asked: list[Draw], cuts: list[int], rule: ProtocolRule
) -> None:
    proxy = ProxyUnderTest(folder)
    link = proxy.link()
    proxy.add(rule)
    sent = b"".join(make(link, number) for number, make in enumerate(asked, 1))
    for chunk in chunks(sent, cuts):
        link.send(chunk)
    answered = b"".join(link.response("EndTxn", number) for number in range(1, 9))
    proxy.heal()
    for _ in asked:
        proxy.wait(1.0)
    assert link.broker.written == sent
    for chunk in chunks(answered, cuts):
        link.answer(chunk)
    proxy.heal()
    for _ in asked:
        proxy.wait(1.0)
    assert link.client.written == answered


@given(st.lists(requests(), max_size=8), CUTS)
def test_only_the_messages_that_a_rule_drops_do_not_pass(
    folder: Path, asked: list[Draw], cuts: list[int]
) -> None:
    proxy = ProxyUnderTest(folder)
    link = proxy.link()
    select = Selector("EndTxn", transactional_id="shop-1")
    proxy.add(ProtocolRule("r", select, Action.DROP, times=None, client=ClientConnection.STALL))
    messages = [make(link, number) for number, make in enumerate(asked, 1)]
    for chunk in chunks(b"".join(messages), cuts):
        link.send(chunk)
    wanted = {
        link.end_txn(number, version=version) for number in range(1, len(asked) + 1) for version in range(6)
    }
    assert link.broker.take() == [message for message in messages if message not in wanted]


def test_messages_that_are_split_at_every_boundary_pass(folder: Path) -> None:
    def ask(link: LinkUnderTest) -> bytes:
        return (
            link.produce(1, own_id=LONG_ID)
            + link.end_txn(2, version=3)
            + with_body(99, 3, 3, b"unknown")
            + cut_short(link.end_txn(4), 3)
            + link.produce(5, acks=0)
            + link.add_offsets(6)
        )

    def answer(link: LinkUnderTest) -> bytes:
        numbers = {1: "Produce", 2: "EndTxn", 3: "EndTxn", 4: "EndTxn", 6: "AddOffsetsToTxn"}
        return b"".join(link.response(api, number) for number, api in numbers.items())

    link = ProxyUnderTest(folder).link()
    sizes = len(ask(link)), len(answer(link))
    splits = [*((at, -1) for at in range(sizes[0])), *((-1, at) for at in range(sizes[1])), (-1, -1)]
    for in_request, in_response in splits:
        link = ProxyUnderTest(folder).link()
        sent, answered = ask(link), answer(link)
        for data, at, give in ((sent, in_request, link.send), (answered, in_response, link.answer)):
            parts = [data[:at], data[at:]] if at >= 0 else [data[n : n + 1] for n in range(len(data))]
            for part in parts:
                give(part)
        assert link.broker.written == sent and link.client.written == answered


def test_a_produce_request_that_comes_in_parts_waits_for_its_response(folder: Path) -> None:
    """Its begin does not say yet whether it gets a response."""
    sent = ProxyUnderTest(folder).link().produce(1, own_id=LONG_ID)
    for at in range(13, len(sent)):
        link = ProxyUnderTest(folder).link()
        link.send(sent[:at])
        link.send(sent[at:])
        assert list(link.connection.outstanding) == [1], f"split at {at}"


ANY_RULE = st.builds(
    ProtocolRule,
    st.just("r"),
    st.builds(Selector, st.sampled_from(APIS), st.just("request")),
    st.sampled_from(Action),
    times=st.sampled_from([1, None]),
    release=st.builds(
        Release, st.sampled_from([(), (Selector("EndTxn"),), (Selector("EndTxn", "response"),)]), st.none()
    ),
    holds_retries=st.booleans(),
    client=st.sampled_from(ClientConnection),
    error=st.just("NOT_COORDINATOR"),
    when=st.sampled_from(When),
    set_fields=st.sampled_from(
        [{"ProducerEpoch": 9}, {"ProducerEpoch": 1 << 40}, {"TransactionalId": 7}, {"NoField": 1}]
    ),
)
ANY_RULE |= st.builds(
    ProtocolRule,
    st.just("r"),
    st.builds(Selector, st.sampled_from(APIS), st.just("response")),
    st.sampled_from([Action.HOLD, Action.DELAY, Action.DROP, Action.ERROR, Action.CLOSE, Action.EDIT]),
    times=st.sampled_from([1, None]),
    client=st.sampled_from(ClientConnection),
    error=st.just("NOT_COORDINATOR"),
    set_fields=st.sampled_from([{"ErrorCode": 9}, {"ErrorCode": "x"}, {"ThrottleTimeMs": 7}, {"NoField": 1}]),
)
ANY_RULE = ANY_RULE.map(
    lambda rule: structs.replace(rule, release=Release(after_s=1.0)) if rule.action is Action.DELAY else rule
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), requests(), CUTS),
        st.tuples(st.just("answer"), responses(), CUTS),
        st.tuples(st.just("ask"), st.binary(max_size=60), CUTS),
        st.tuples(st.just("answer"), st.binary(max_size=60), CUTS),
        st.tuples(st.sampled_from(["wait", "heal", "client ends", "new client"]), st.none(), CUTS),
    ),
    max_size=30,
)


@settings(max_examples=120)
@given(ANY_RULE, STEPS)
def test_no_bytes_end_the_proxy_and_nothing_is_kept_for_ever(
    folder: Path, rule: ProtocolRule, steps: list[tuple[str, object, list[int]]]
) -> None:
    proxy = ProxyUnderTest(folder)
    links = [proxy.link()]
    proxy.add(rule)
    for number, (step, content, cuts) in enumerate(steps):
        link = links[-1]
        match step:
            case "ask" | "answer":
                data = content(link, number % 3) if callable(content) else content
                assert isinstance(data, bytes)
                for chunk in chunks(data, cuts):
                    (link.send if step == "ask" else link.answer)(chunk)
            case "wait":
                proxy.wait(1.0)
            case "heal" if "r" in proxy.state.rules:
                proxy.heal()
            case "client ends":
                link.connection.client.connection_lost(None)
            case "new client":
                links.append(proxy.link())
    if "r" in proxy.state.rules:
        proxy.heal()
    for link in links:
        link.connection.broker.connection_lost(None)
    for _ in steps:
        proxy.wait(5.0)
    assert "r" not in proxy.state.rules or proxy.heal().kept == 0


def test_a_real_connection_with_any_bytes_ends_or_passes_and_others_go_on(tmp_path: Path) -> None:
    proxy = ProxyUnderTest(tmp_path)
    link = proxy.link()
    good = link.end_txn(1) + link.produce(2) + with_body(99, 0, 3, b"unknown") + cut_short(link.end_txn(4), 5)
    refused = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(100),  # TLS
        (-5).to_bytes(4, signed=True) + bytes(50),
        (1 << 30).to_bytes(4) + bytes(50),
        (3).to_bytes(4) + bytes(50),
    ]
    open_ended = [b"\0\0", good[:20], (200 << 20).to_bytes(4) + good[4:30], b""]

    async def through_proxy() -> None:
        loop = asyncio.get_running_loop()
        broker = await asyncio.start_server(_echo, HOST, 0)
        address = Address(HOST, broker.sockets[0].getsockname()[1])
        state = ProxyState(small_schemas(), ProxyJournal(tmp_path / "real.jsonl"), loop.call_later)
        listener = Listener(state, ProxyLink("client:w0->1", 0, (HOST, address.port)), address, None)
        server = await loop.create_server(listener.accept, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        for content in refused:
            assert await _exchange(port, content, 1) == b""
        for content in open_ended:
            _, writer = await asyncio.open_connection(HOST, port)
            writer.write(content)
            writer.close()
            await writer.wait_closed()
            assert await _exchange(port, good, len(good)) == good
        server.close()
        broker.close()

    asyncio.run(asyncio.wait_for(through_proxy(), 6 * WITHIN_S))


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


async def _exchange(port: int, content: bytes, size: int) -> bytes:
    """Send bytes, and return what comes back until `size` bytes are here or the connection is closed."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(content)
    received = b""
    async with asyncio.timeout(WITHIN_S):
        while len(received) < size and (part := await reader.read(1 << 16)):
            received += part
    writer.close()
    return received


def test_messages_that_cannot_be_decoded_are_counted_and_named(tmp_path: Path) -> None:
    proxy = ProxyUnderTest(tmp_path)
    link = proxy.link()
    link.send(cut_short(link.end_txn(1), 3) + cut_short(link.end_txn(2), 3) + link.end_txn(3))
    link.answer(cut_short(link.response("EndTxn", 1), 1))
    assert Counter(words.partition(" (")[0] for words in proxy.state.undecoded.words) == {
        "2 EndTxn requests on client:w1->1": 1,
        "1 EndTxn responses on client:w1->1": 1,
    }
    assert "EndTxnRequest, version 1, cannot be decoded: it is too short" in proxy.state.undecoded.words[0]

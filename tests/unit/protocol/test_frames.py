"""Bytes are split into messages, whatever chunks they come in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.protocol.frames import LARGEST_BYTES, SLICE_BYTES, FrameSplitter

CONTENTS = st.lists(st.binary(min_size=4, max_size=60), max_size=8)


def message(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


class Split:
    """Collects the messages whose fifth byte is even, and all bytes in the order in which they leave."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.out = b""
        self.block_after_frames = False
        self.refusals: list[str] = []
        self.splitter = FrameSplitter(
            lambda head: head[4] % 2 == 0,
            self._on_frame,
            self._pass_on,
            lambda error: self.refusals.append(str(error)),
        )

    def _on_frame(self, frame: bytes) -> None:
        self.frames.append(frame)
        self.out += frame
        if self.block_after_frames:
            self.splitter.block()

    def _pass_on(self, data: bytes | bytearray | memoryview) -> None:
        self.out += data


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(CONTENTS, st.lists(st.integers(0, 1000), max_size=12))
def test_all_bytes_pass_in_order_and_wanted_messages_are_collected(
    contents: list[bytes], cuts: list[int]
) -> None:
    data, split = b"".join(map(message, contents)), Split()
    for chunk in chunks(data, cuts):
        split.splitter.feed(chunk)
    assert split.out == data
    assert split.frames == [message(content) for content in contents if content[0] % 2 == 0]


@given(CONTENTS, st.lists(st.integers(0, 1000), max_size=12))
def test_nothing_passes_while_it_is_blocked(contents: list[bytes], cuts: list[int]) -> None:
    data, split = b"".join(map(message, contents)), Split()
    split.block_after_frames = True
    for chunk in chunks(data, cuts):
        split.splitter.feed(chunk)
    wanted = [message(content) for content in contents if content[0] % 2 == 0]
    for number in range(len(wanted)):
        assert split.frames == wanted[: number + 1] and split.out.endswith(wanted[number])
        split.splitter.unblock()
    assert split.out == data


@pytest.mark.parametrize("size", [-1, 0, 3, LARGEST_BYTES + 1])
def test_a_size_that_no_message_has_is_not_kafka(size: int) -> None:
    split = Split()
    split.splitter.feed(message(b"!234") + size.to_bytes(4, signed=True) + bytes(20))
    assert split.refusals == [f"a message of {size} bytes is not Kafka's protocol"]
    split.splitter.feed(message(b"!234"))
    assert split.out == message(b"!234")


def test_a_size_that_no_message_has_is_refused_with_its_last_byte() -> None:
    split = Split()
    for byte in (-5).to_bytes(4, signed=True):
        assert not split.refusals
        split.splitter.feed(bytes([byte]))
    assert split.refusals == ["a message of -5 bytes is not Kafka's protocol"]


def test_many_messages_that_were_blocked_pass_in_order_and_in_slices() -> None:
    split = Split()
    split.block_after_frames = True
    small, wanted = message(b"!234") * SLICE_BYTES, message(b"\x02abc")
    split.splitter.block()
    split.splitter.feed(small + wanted + small + wanted)
    split.splitter.unblock()
    assert split.out == small + wanted
    split.splitter.unblock()
    assert split.out == small + wanted + small + wanted


def test_bytes_that_were_blocked_are_refused_when_they_are_unblocked() -> None:
    split = Split()
    split.splitter.block()
    split.splitter.feed(b"GET / HTTP/1.1")
    assert split.refusals == []
    split.splitter.unblock()
    assert len(split.refusals) == 1 and split.out == b""

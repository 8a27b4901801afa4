"""The primitive fields of Kafka's messages, read one after another.

Big-endian integers; strings and arrays with a fixed-size length in front, or, in the *flexible*
versions of a message, with an unsigned varint of length + 1 (0: null) and tagged fields at the end
of each structure. Reference: Kafka's protocol guide, and KIP-482.
"""

import struct
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{code}") for code in "bhiq")


class UndecodableField(Exception):
    """Bytes that do not say what they should; the message says what was expected."""


class FieldReader:
    """A place in a message, that moves on with each field read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.flexible = False  # whether strings, arrays and structures have their flexible form

    def int8(self) -> int:
        """A signed byte."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Two signed bytes."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Four signed bytes."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Eight signed bytes."""
        return self._number(_INT64)

    def string(self) -> str | None:
        """A string in UTF-8, or null."""
        length = self._varint() - 1 if self.flexible else self.int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise UndecodableField(f"a string that is not UTF-8: {error}") from error

    def array(self, item: Callable[[], T]) -> list[T]:
        """As many items as the length in front says; null is read as empty."""
        length = self._varint() - 1 if self.flexible else self.int32()
        if length > len(self._data):  # each item takes a byte at least
            raise UndecodableField(f"an array of {length} items in {len(self._data)} bytes")
        return [item() for _ in range(length)]

    def end_structure(self) -> dict[int, bytes]:
        """The tagged fields, by tag; older versions have none."""
        if not self.flexible:
            return {}
        return {self._varint(): self._take(self._varint()) for _ in range(self._varint())}

    def _number(self, form: struct.Struct) -> int:
        number: int = form.unpack(self._take(form.size))[0]
        return number

    def _varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise UndecodableField(f"ends after {len(self._data)} bytes, where {end} were needed")
        taken = self._data[self._at : end]
        self._at = end
        return taken

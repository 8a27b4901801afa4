"""Read the primitive fields of Kafka's messages one after another.

Integers are big-endian. The length of a string or an array is in front of it, as an integer of a fixed size. In
*flexible* versions of a message, an unsigned varint with the value length + 1 is in front (0: null), and each structure
ends with tagged fields. Reference: Kafka's protocol guide, and KIP-482.
"""

import struct
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{code}") for code in "bhiq")


class UndecodableField(Exception):
    """The bytes do not have the expected format. The message says what was expected."""


class FieldReader:
    """Reads a message field by field."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.flexible = False  # True: strings, arrays and structures have the form of flexible versions

    def int8(self) -> int:
        """Read a signed 8-bit integer."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Read a signed 16-bit integer."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Read a signed 32-bit integer."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Read a signed 64-bit integer."""
        return self._number(_INT64)

    def string(self) -> str | None:
        """Read a UTF-8 string. None if it is null."""
        length = self._varint() - 1 if self.flexible else self.int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise UndecodableField(f"a string that is not UTF-8: {error}") from error

    def array(self, item: Callable[[], T]) -> list[T]:
        """Read an array with the function `item` for each element. Null is read as an empty list."""
        length = self._varint() - 1 if self.flexible else self.int32()
        if length > len(self._data):  # each item takes at least one byte
            raise UndecodableField(f"an array of {length} items in {len(self._data)} bytes")
        return [item() for _ in range(length)]

    def end_structure(self) -> dict[int, bytes]:
        """Read the tagged fields at the end of a structure. Empty if the version is not flexible."""
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
        end = self._position + size
        if end > len(self._data):
            raise UndecodableField(f"the message ends after {len(self._data)} bytes, but {end} were expected")
        field = self._data[self._position : end]
        self._position = end
        return field

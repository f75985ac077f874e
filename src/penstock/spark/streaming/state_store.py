"""What a bucket remembers, in Spark's state store: pieces of bytes, each at its place.

A call of the state store goes to the JVM and back. One after the other, most of the time would be waiting, so many are
sent before the first is answered: the JVM takes them in order, and answers in order. `AT_ONCE` bounds how much is under
way: requests to read are short, and so are answers to writing, so that many of either fit into what a socket holds and
no side waits for the other to read while the other does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Any, Protocol

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from penstock.errors import CheckpointError

PageAddress = tuple[int, int]
"""A group of keys, and a page of it; or `FRAME`."""
FRAME: PageAddress = (-1, 0)
"""Where lies what is not of any key."""
AT_ONCE = 64
_NAME = "pages"
_HEAD = Struct(">ii")
_PLACE = StructType([StructField("group", IntegerType()), StructField("page", IntegerType())])
_HELD = StructType([StructField("held", BinaryType())])


class StateStore(Protocol):
    """Bytes by their places. Where there are none, nothing is held."""

    def read(self, places: Sequence[PageAddress]) -> Iterator[bytes]: ...

    def write(self, pieces: Iterable[tuple[PageAddress, bytes]]) -> None: ...

    def all(self) -> Iterator[tuple[PageAddress, bytes]]: ...


class SparkStore:
    """The store of the bucket that is at work."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getMapState(_NAME, _PLACE, _HELD)
        self.client: Any = handle._statefulProcessorApiClient
        import pyspark.sql.streaming.proto.StateMessage_pb2 as messages

        self.messages: Any = messages

    def read(self, places: Sequence[PageAddress]) -> Iterator[bytes]:
        for answer in self._called(self._reading, places):
            yield bytes(self.client._deserialize_from_bytes(answer)[0]) if answer else b""

    def write(self, pieces: Iterable[tuple[PageAddress, bytes]]) -> None:
        for _ in self._called(self._writing, pieces):
            pass

    def all(self) -> Iterator[tuple[PageAddress, bytes]]:
        return (((group, page), bytes(held)) for (group, page), (held,) in self.state.iterator())

    def _reading(self, place: PageAddress) -> Any:
        return self.messages.MapStateCall(stateName=_NAME, getValue=self.messages.GetValue(userKey=self._key(place)))

    def _writing(self, piece: tuple[PageAddress, bytes]) -> Any:
        place, held = piece
        if not held:
            gone = self.messages.RemoveKey(userKey=self._key(place))
            return self.messages.MapStateCall(stateName=_NAME, removeKey=gone)
        value = self.client._serialize_to_bytes(_HELD, (held,))
        update = self.messages.UpdateValue(userKey=self._key(place), value=value)
        return self.messages.MapStateCall(stateName=_NAME, updateValue=update)

    def _key(self, place: PageAddress) -> bytes:
        return bytes(self.client._serialize_to_bytes(_PLACE, place))

    def _send(self, message: bytes) -> None:
        """As the client sends a message, but without waking the JVM for each: 0, the length, and the message."""
        self.client.sockfile.write(_HEAD.pack(0, len(message)) + message)

    def _called(self, call: Callable[[Any], Any], these: Iterable[Any]) -> Iterator[bytes]:
        """What is answered to the calls for these, in their order."""
        left = iter(these)
        while some := list(islice(left, AT_ONCE)):
            for each in some:
                request = self.messages.StateVariableRequest(mapStateCall=call(each))
                self._send(self.messages.StateRequest(stateVariableRequest=request).SerializeToString())
            self.client.sockfile.flush()
            # All answers are taken before any is given out: who takes one may call again.
            answers = [self.client._receive_proto_message() for _ in some]
            for status, reason, value in answers:
                if status != 0:
                    raise CheckpointError(f"state: Spark's state store must do what it is asked; it said: {reason}")
                yield value

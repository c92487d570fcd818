"""What handlers print: kept in the log up to a bound, the rest counted and dropped, so that nobody blocks."""

import os

MAX_OUTPUT_BYTES = 64 << 10
_CHUNK = 64 << 10
_CHUNKS_AT_ONCE = 16  # more than a pipe holds; whoever never stops printing must not hold up the dispatcher


class ChildOutput:
    """The reading end of a runner's stdout and stderr."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.dropped = 0
        self._room = MAX_OUTPUT_BYTES
        self._partial = b""

    def refill(self) -> None:
        """From here on as much is kept again."""
        self._room = MAX_OUTPUT_BYTES

    def lines(self) -> tuple[list[str], bool]:
        """Whole lines that have come in, and whether more may follow."""
        kept = bytearray(self._partial)
        is_open = True
        for _ in range(_CHUNKS_AT_ONCE):
            try:
                chunk = os.read(self.descriptor, _CHUNK)
            except BlockingIOError:
                break
            if not chunk:
                is_open = False
                break
            kept += chunk[: self._room]
            self.dropped += max(0, len(chunk) - self._room)
            self._room = max(0, self._room - len(chunk))
        whole, newline, self._partial = bytes(kept).rpartition(b"\n")
        if not is_open:
            whole, self._partial = whole + newline + self._partial, b""
        return whole.decode(errors="replace").splitlines(), is_open

    def close(self) -> None:
        os.close(self.descriptor)

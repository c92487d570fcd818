"""Run by a test: a batch with one job for an external worker."""

from mayfly import batch, enqueue

if __name__ == "__main__":
    with batch("album", on_complete=("report", {})):
        enqueue("resize", {}, lane="outside")

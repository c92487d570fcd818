"""A batch with one child, for an outside worker."""

from mayfly import batch, enqueue

if __name__ == "__main__":
    with batch("album", on_complete=("report", {})):
        enqueue("resize", {}, lane="outside")

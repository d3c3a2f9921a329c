"""A slow shared folder for one process: everything that is written, synced or renamed takes a while."""

import os
import time

SECONDS = float(os.environ.get("SLOW_DISK", "0"))


def slowed(work):  # type: ignore[no-untyped-def]
    def slow(*arguments, **options):  # type: ignore[no-untyped-def]
        time.sleep(SECONDS)
        return work(*arguments, **options)

    return slow


if SECONDS:
    for name in ("fsync", "fdatasync", "rename", "replace", "write"):
        setattr(os, name, slowed(getattr(os, name)))

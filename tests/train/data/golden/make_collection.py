"""Made the collection beside it: its images are committed, so that no library can change their names."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from run_folders import REFUSED, Try, make_image, write_run  # noqa: E402

if __name__ == "__main__":
    collection = HERE / "collection"
    write_run(collection, "runs/a", [[Try()], [REFUSED, Try(semantics=9.0)], [Try()]])
    write_run(
        collection, "runs/b", [[REFUSED, Try()]], request=["Make it red", make_image("given"), "please"]
    )
    write_run(
        collection,
        "runs/c",
        [[Try(quality=9.0)], [], [REFUSED, REFUSED]],
        request="Say <image>, <VIDEO> and <|im_start|>, then {prompt} %s",
        captions=False,
        reasoning="",
    )
    write_run(
        collection, "runs/d", [[REFUSED, Try(semantics=9.0)], [Try()]], request="Tell it in two pictures"
    )

"""A report as the studio shows it: a page without rights, in a frame, whose pictures can be clicked.

The policy in the response's header is what holds: no script of the page runs, nothing is loaded but pictures
of the same folder, and the page has an origin of its own, so that it can neither read nor ask for anything.
One script of ours is allowed by its hash. It tells the studio which picture was clicked and which page is
shown; the studio takes both as words from a stranger.
"""

from __future__ import annotations

import base64
import hashlib
import re

SCRIPT = """
const say = (words) => parent.postMessage({ interleave: "report", ...words }, "*");
say({ at: location.pathname, hash: location.hash });
addEventListener("hashchange", () => say({ at: location.pathname, hash: location.hash }));
addEventListener("click", (event) => {
  const picture = event.target instanceof Element ? event.target.closest("img") : null;
  if (!picture?.currentSrc) return;
  event.preventDefault();
  const all = [...document.images].filter((each) => each.currentSrc);
  say({ picture: picture.currentSrc, alt: picture.alt, number: all.indexOf(picture) + 1, of: all.length });
}, true);
const style = document.createElement("style");
style.textContent = "img { cursor: zoom-in; }";
document.head.append(style);
"""
HEAD_BYTES = 20_000
"""In which the policy of a page stands, where it has one."""
_OWN_POLICY = re.compile(
    rb"<meta\s[^<>]{0,200}http-equiv=[\"']?content-security-policy[^<>]{0,2000}>", re.IGNORECASE
)
"""A page's own policy would forbid our script; the header forbids at least as much."""
_HEAD = re.compile(rb"<head\b[^<>]{0,200}>", re.IGNORECASE)


def report_policy(frame_ancestors: tuple[str, ...] = ()) -> str:
    """The policy for everything that is sent from a folder of reports."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    rules = {
        "default-src": ["'none'"],
        "script-src": [f"'sha256-{digest}'"],
        "style-src": ["'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'self'", *frame_ancestors],
        "sandbox": ["allow-scripts"],
    }
    return "; ".join(f"{name} {' '.join(values)}" for name, values in rules.items())


def framed_page(page: bytes) -> bytes:
    """A report with our script in its head; at its end where it has no head."""
    head, rest = _OWN_POLICY.sub(b"", page[:HEAD_BYTES]), page[HEAD_BYTES:]
    script = b"<script>" + SCRIPT.encode() + b"</script>"
    found = _HEAD.search(head)
    if found is None:
        return b"".join((head, rest, script))
    return b"".join((head[: found.end()], script, head[found.end() :], rest))

"""Request parameters: on every API each one is applied or refused.

Steps, guidance, size and the like are set when the server starts. A request may repeat those values, as the
reference's trainer does. It may send others only if the generator supports that; if not, the refusal names
the value in use. For clients that cannot be changed, the operator lists parameters to ignore, and each
response lists those it dropped.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from pydantic import BaseModel

from interleave.plugin import backends, count, did_you_mean, one_line, text
from interleave.service.generator.messages import GeneratorInfo
from interleave.service.http.refusals import Refusal

MAX_SEED = 2**63 - 1
RANDOM_SEEDS = 2**31
MAX_SIDE = 16_384
SIDE_MULTIPLE = 16
MAX_NUMBER_CHARACTERS = 40

SETTINGS: dict[str, tuple[str, ...]] = {
    # request parameter: generator options with the same meaning
    "num_inference_steps": ("steps", "num_inference_steps"),
    "num_inference_step": ("steps", "num_inference_steps"),  # as the reference's trainer spells it
    "guidance_scale": ("guidance", "guidance_scale"),
    "true_cfg_scale": ("true_cfg_scale", "true_cfg", "guidance"),
    "text_guidance_scale": ("text_guidance", "guidance"),
    "image_guidance_scale": ("image_guidance",),
    "max_sequence_length": ("prompt_tokens", "max_sequence_length"),
}

IMAGE_SETTINGS = {
    # request parameter: image setting
    "num_inference_steps": "steps",
    "num_inference_step": "steps",
    "guidance_scale": "guidance",
    "true_cfg_scale": "guidance",
    "text_guidance_scale": "guidance",
}
BOUNDS = {"steps": (1, 100), "guidance": (0, 100)}
MAX_REQUESTED_PIXELS = 2048 * 2048
"""Maximum size of a requested image, unless the generator's default is larger."""

NEVER_IGNORED = frozenset({"stream"})
"""A client that requests a stream waits for events, and would read a plain response as empty."""

REPORTED_SETTINGS = {"size", "width", "height", "shape", "negative_prompt"}.union(*SETTINGS.values())
"""Settings that a worker reports, because requests may refer to them."""

_SIZE = re.compile(r"(\d{1,5})[x×](\d{1,5})\Z")
_RATIO = re.compile(r"(\d{1,4}):(\d{1,4})\Z")


class Parameters:
    """Parameters of a request, taken one by one; `refuse_unknown` refuses the remaining ones."""

    def __init__(self, values: Mapping[str, Any], info: GeneratorInfo, *, known: Iterable[str]) -> None:
        self.info = info
        self.known = set(known)
        self.dropped = sorted(name for name in values if name in info.ignored)
        self._left = {
            name: value for name, value in values.items() if value is not None and name not in info.ignored
        }
        self._overrides: dict[str, Any] = {}

    @property
    def settings(self) -> backends.ImageSettings:
        """Image settings that the request overrides."""
        return backends.ImageSettings(**self._overrides)

    def take(self, name: str) -> Any:
        """Remove and return a raw value; `None` if it was not sent."""
        return self._left.pop(name, None)

    def text(self, name: str, *, most: int = text.MAX_REQUEST_CHARACTERS) -> str | None:
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise _refused(name, value, "must be a string")
        if len(value) > most:
            raise Refusal(
                f"{name}: {len(value):,} characters, more than the {most:,} allowed", parameter=name
            )
        if problem := text.unusable(value):
            raise Refusal(f"{name} cannot be used: {problem}", parameter=name)
        return value

    def prompt(self) -> str:
        prompt = self.text("prompt")
        if prompt is None:
            raise Refusal("prompt is missing: describe the image to generate", parameter="prompt")
        return prompt

    def integer(self, name: str, low: int, high: int) -> int | None:
        value = self.take(name)
        if value is None:
            return None
        number = _whole_number(value, low, high)
        if number is None:
            raise _refused(name, value, f"must be a whole number from {low} to {high}")
        return number

    def boolean(self, name: str) -> bool:
        value = self.take(name)
        if value is not None and not any(_same(value, each) for each in (True, False)):
            raise _refused(name, value, "must be true or false")
        return _same(value, True)

    def seed(self) -> int:
        """Return the seed that was sent, or a random one."""
        sent = "seed" in self._left
        seed = self.integer("seed", 0, MAX_SEED)
        if sent and not self.info.capabilities.seeds:
            raise Refusal(
                f"seed: this generator does not take seeds. {_how_to_drop('seed')}",
                parameter="seed",
            )
        return random.randrange(RANDOM_SEEDS) if seed is None else seed

    def choice(self, name: str, allowed: Iterable[str]) -> str | None:
        value, choices = self.take(name), tuple(allowed)
        if value is None:
            return None
        if value not in choices:
            raise _refused(name, value, f"must be one of {', '.join(choices)}")
        return str(value)

    def only(self, name: str, *values: Any, because: str) -> None:
        """Take a parameter that this server supports only with these values."""
        value = self.take(name)
        if value is not None and not any(_same(value, each) for each in values):
            way_out = "Omit it" if name in NEVER_IGNORED else _how_to_drop(name)
            raise _refused(name, value, f"{because}. {way_out}")

    def negative_prompt(self) -> None:
        """Take a negative prompt: empty, the server's, or any text if the generator supports it."""
        value = self.text("negative_prompt")
        if value is None or not value.strip() or value == self.info.settings.get("negative_prompt"):
            return
        if self._is_settable("negative_prompt"):
            self._overrides["negative_prompt"] = value
            return
        raise _refused(
            "negative_prompt", value, f"requests cannot set it here. {_how_to_drop('negative_prompt')}"
        )

    def generation_settings(self, *names: str) -> None:
        """Take steps, guidance and the like: the server's values, or others if the generator supports it."""
        for name in names:
            value = self.take(name)
            if value is None or self._take_override(name, value):
                continue
            actual = next((v for o in SETTINGS[name] if (v := self.info.settings.get(o)) is not None), None)
            if actual is None:
                raise _refused(name, value, f"this generator has no such setting. {_how_to_drop(name)}")
            if not _same(value, actual):
                raise _refused(name, value, f"this server uses {actual}. {_how_to_drop(name)}")

    def size(self) -> None:
        """Take width, height, size and aspect ratio: the server's, or others if the generator supports it."""
        size = self.take("size")
        if size is not None and size != "auto":
            if not isinstance(size, str) or not (match := _SIZE.match(size)):
                raise _refused("size", size, "must be auto, or a size such as 1024x1024")
            self._take_sides("size", size, width=int(match[1]), height=int(match[2]))
        width = self.integer("width", 1, MAX_SIDE)
        height = self.integer("height", 1, MAX_SIDE)
        if self._is_settable("size") and None not in (width, height):
            self._take_sides("width and height", f"{width}x{height}", width=width, height=height)
        else:
            self._take_sides("width", width, width=width)
            self._take_sides("height", height, height=height)
        ratio = self.take("aspect_ratio")
        if ratio is not None and ratio != "auto":
            match = _RATIO.match(ratio) if isinstance(ratio, str) else None
            if match is None or not int(match[1]) or not int(match[2]):
                raise _refused("aspect_ratio", ratio, "must be a ratio such as 1:1 or 16:9")
            self._take_ratio(ratio, int(match[1]), int(match[2]))

    def refuse_unknown(self) -> None:
        for name, value in self._left.items():
            if name in self.known:
                raise _refused(name, value, f"this server does not support it. {_how_to_drop(name)}")
            name = one_line(name, 60)
            raise Refusal(f"unknown parameter {name!r}. {did_you_mean(name, self.known)}", parameter=name)

    def _is_settable(self, setting: str) -> bool:
        return setting in self.info.capabilities.request_settings

    def _take_override(self, name: str, value: object) -> bool:
        """Take a value that overrides the server's. Return False if the generator does not support that."""
        setting = IMAGE_SETTINGS.get(name)
        if setting is None or not self._is_settable(setting):
            return False
        low, high = BOUNDS[setting]
        number = _whole_number(value, low, high) if setting == "steps" else _number(value)
        if number is None or not low <= number <= high:
            kind = "a whole number" if setting == "steps" else "a number"
            raise _refused(name, value, f"must be {kind} from {low} to {high}")
        if self._overrides.setdefault(setting, number) != number:
            raise _refused(name, value, f"conflicts with {self._overrides[setting]} in another parameter")
        return True

    def _take_sides(self, name: str, value: object, **sides: int | None) -> None:
        actual = known_size(self.info.settings)
        if self._is_settable("size") and any(sides.values()):
            own = actual or usual_size(self.info.settings)
            width, height = sides.get("width") or own[0], sides.get("height") or own[1]
            if not width or not height:
                raise _refused(name, value, "send both width and height")
            self._set_size(name, value, (width, height))
            return
        for side, asked in sides.items():
            if asked is None:
                continue
            if actual is None:
                raise _refused(name, value, f"this generator chooses its size. {_how_to_drop(name)}")
            if asked != actual[side == "height"]:
                raise _refused(name, value, f"this server uses {actual[0]}x{actual[1]}. {_how_to_drop(name)}")

    def _set_size(self, name: str, value: object, size: tuple[int, int]) -> None:
        own = usual_size(self.info.settings)
        if size[0] * size[1] > max(MAX_REQUESTED_PIXELS, own[0] * own[1]):
            raise _refused(name, value, f"exceeds the maximum of {MAX_REQUESTED_PIXELS:,} pixels")
        if self._overrides.setdefault("size", size) != size:
            width, height = self._overrides["size"]
            raise _refused(name, value, f"conflicts with {width}x{height} in another parameter")

    def _take_ratio(self, value: str, width: int, height: int) -> None:
        actual = known_size(self.info.settings)
        own = actual or usual_size(self.info.settings)
        if self._is_settable("size") and all(own):
            named = self._overrides.get("size")
            if named is None:
                self._set_size("aspect_ratio", value, with_ratio(own, width / height))
            elif named[0] * height != named[1] * width:
                raise _refused("aspect_ratio", value, f"conflicts with the size {named[0]}x{named[1]}")
            return
        if actual is None:
            raise _refused(
                "aspect_ratio", value, f"this generator chooses it. {_how_to_drop('aspect_ratio')}"
            )
        if width * actual[1] != height * actual[0]:
            raise _refused(
                "aspect_ratio",
                value,
                f"this server uses {actual[0]}x{actual[1]}. {_how_to_drop('aspect_ratio')}",
            )


def known_size(settings: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the fixed width and height of a generator; `None` if its settings do not fix them."""
    if settings.get("shape") == "source":  # edits have the shape of their source
        return None
    size = usual_size(settings)
    return size if all(size) else None


def usual_size(settings: Mapping[str, Any]) -> tuple[int, int]:
    """Return the width and height of text-to-image results; (0, 0) if unknown."""
    width, height, size = (settings.get(key) for key in ("width", "height", "size"))
    if isinstance(width, int) and isinstance(height, int):
        return width, height
    if isinstance(size, int):
        return size, size
    if isinstance(size, str) and (match := _SIZE.match(size)):
        return int(match[1]), int(match[2])
    return 0, 0


def with_ratio(size: tuple[int, int], ratio: float) -> tuple[int, int]:
    """Return a size of this ratio with about as many pixels; sides are multiples of `SIDE_MULTIPLE`."""
    if size[0] == ratio * size[1]:
        return size
    area = size[0] * size[1]
    width = max(1, round(math.sqrt(area * ratio) / SIDE_MULTIPLE)) * SIDE_MULTIPLE
    return width, max(1, round(math.sqrt(area / ratio) / SIDE_MULTIPLE)) * SIDE_MULTIPLE


def check_mask(sent: bool, info: GeneratorInfo, *, parameter: str) -> None:
    """Refuse a mask that the generator does not take, or a missing one that it requires."""
    masks = info.capabilities.masks
    if sent and masks == "never":
        raise Refusal(
            f"{parameter}: this generator edits whole images and does not take masks", parameter=parameter
        )
    if not sent and masks == "must":
        raise Refusal(
            f"{parameter}: this generator requires a mask: send one with the image",
            parameter=parameter,
        )


def check_sources(number: int, info: GeneratorInfo, *, parameter: str = "image") -> None:
    """Refuse more images than the generator takes, or none if it requires one."""
    most = info.capabilities.max_sources
    if number > most:
        takes = f"at most {most}" if most else "none"
        raise Refusal(
            f"{parameter}: {count(number, 'image')} sent; this generator takes {takes}",
            parameter=parameter,
        )
    if not number and not info.capabilities.text_to_image:
        raise Refusal(
            f"{parameter}: this generator only edits images: send a source image", parameter=parameter
        )


def _how_to_drop(name: str) -> str:
    return f"Omit it, or have the operator start the server with --ignore {name}"


def _refused(name: str, value: object, reason: str) -> Refusal:
    return Refusal(f"{name}={_shown(value)}: {reason}", parameter=name)


def _shown(value: object) -> str:
    return one_line(value if isinstance(value, str) else repr(value), 60)


def _whole_number(value: object, low: int, high: int) -> int | None:
    """Return the value as an integer, also from `1.0` or `1e3`; `None` if it is not one in this range."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > MAX_NUMBER_CHARACTERS:
        return None
    try:
        number = Decimal(value)  # exact; a float would round large seeds
    except InvalidOperation:
        return None
    # Check the range first: 1e999999 as an integer would exhaust the memory.
    if not number.is_finite() or not low <= number <= high or number != number.to_integral_value():
        return None
    return int(number)


def _number(value: object) -> float | None:
    """Return a finite number, also from form text; `None` for anything else, booleans included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _same(value: object, other: object) -> bool:
    if isinstance(other, bool):
        return value is other or (isinstance(value, str) and value.lower() == str(other).lower())
    one, two = _number(value), _number(other)
    return one == two if one is not None and two is not None else value == other


def settings_of(generator: object) -> dict[str, Any]:
    """Return the settings of a generator: the options of its spec, overridden by its `settings`."""
    options, own = getattr(generator, "options", None), getattr(generator, "settings", None)
    found = options.model_dump() if isinstance(options, BaseModel) else {}
    if is_dataclass(own) and not isinstance(own, type):
        found |= asdict(own)
    elif isinstance(own, Mapping):
        found |= own
    if isinstance(found.get("size"), tuple | list):
        found["size"] = "x".join(map(str, found["size"]))
    return {
        key: found[key]
        for key in sorted(REPORTED_SETTINGS & found.keys())
        if isinstance(found[key], str | int | float)
    }

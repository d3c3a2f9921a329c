"""List prices of services in US dollars, July 2026.

A name in the tables covers its dated versions (`gpt-4o-2024-11-20`). Set any other price in the spec:
`?price=0.04` per image, `?price_in=…&price_out=…` per million tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class TokenPrice:
    """US dollars per million tokens."""

    input: float
    output: float

    def cost(self, *, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


TYPICAL_INPUT_TOKENS, TYPICAL_OUTPUT_TOKENS = 3_500, 500
"""The tokens of a typical call: instructions, two images, a paragraph of reasoning, a short answer."""

TOKENS = {
    "gpt-4.1": TokenPrice(2.00, 8.00),
    "gpt-4.1-mini": TokenPrice(0.40, 1.60),
    "gpt-4.1-nano": TokenPrice(0.10, 0.40),
    "gpt-4o": TokenPrice(2.50, 10.00),
    "gpt-4o-mini": TokenPrice(0.15, 0.60),
    "gpt-5": TokenPrice(1.25, 10.00),
    "gpt-5-mini": TokenPrice(0.25, 2.00),
    "gpt-5-nano": TokenPrice(0.05, 0.40),
    "gpt-5.1": TokenPrice(1.25, 10.00),
    "gpt-5.2": TokenPrice(1.75, 14.00),
    "gpt-5.4": TokenPrice(2.50, 15.00),
    "gpt-5.4-mini": TokenPrice(0.75, 4.50),
    "gpt-5.4-nano": TokenPrice(0.20, 1.25),
    "gpt-5.5": TokenPrice(5.00, 30.00),
    "gpt-5.6": TokenPrice(5.00, 30.00),
    "o3": TokenPrice(2.00, 8.00),
    "o4-mini": TokenPrice(1.10, 4.40),
    "gemini-2.5-flash": TokenPrice(0.30, 2.50),
    "gemini-2.5-flash-lite": TokenPrice(0.10, 0.40),
    "gemini-2.5-pro": TokenPrice(1.25, 10.00),
    "gemini-3-flash": TokenPrice(0.50, 3.00),
    "gemini-3-pro": TokenPrice(2.00, 12.00),
    "gemini-3.1-flash-lite": TokenPrice(0.25, 1.50),
    "gemini-3.1-pro": TokenPrice(2.00, 12.00),
    "gemini-3.5-flash": TokenPrice(1.50, 9.00),
    "gemini-3.5-flash-lite": TokenPrice(0.30, 2.50),
    "gemini-3.6-flash": TokenPrice(1.50, 7.50),
}


@dataclass(frozen=True)
class ImagePrice:
    """US dollars per image, by quality or size, and per source image."""

    generated: dict[str, float]
    source: float

    def of(self, grade: str) -> float | None:
        """Return the price of an image of this grade with one source, an upper bound for one attempt."""
        return round(self.generated[grade] + self.source, 6) if grade in self.generated else None


IMAGES = {
    "gpt-image-1": ImagePrice({"low": 0.011, "medium": 0.042, "high": 0.167}, source=0.01),
    "gpt-image-1-mini": ImagePrice({"low": 0.005, "medium": 0.011, "high": 0.036}, source=0.003),
    "gpt-image-1.5": ImagePrice({"low": 0.009, "medium": 0.034, "high": 0.133}, source=0.01),
    "gpt-image-2": ImagePrice({"low": 0.006, "medium": 0.053, "high": 0.211}, source=0.01),
    "gemini-2.5-flash-image": ImagePrice({"1K": 0.039}, source=0.0004),
    "gemini-3-pro-image": ImagePrice({"1K": 0.134, "2K": 0.134, "4K": 0.24}, source=0.0011),
    "gemini-3.1-flash-image": ImagePrice({"1K": 0.0672, "2K": 0.101, "4K": 0.151}, source=0.0006),
}
"""OpenAI's prices are for 1024×1024 by quality, Google's by size; `source` is the price of one source."""

_VERSION = re.compile(r"(-preview(-\d{2}-\d{4}|-\d{2}-\d{2})?|-latest|-\d{4}-\d{2}-\d{2}|-\d{3})\Z")


def family(model: str) -> str:
    """Return the name of a model without its date or release state."""
    return _VERSION.sub("", model.rsplit("/", 1)[-1])


def token_price(
    model: str, price_in: float | None = None, price_out: float | None = None
) -> TokenPrice | None:
    """Return the user's price, else the table's; None if both are missing."""
    if price_in is not None or price_out is not None:
        return TokenPrice(price_in or 0.0, price_out or 0.0)
    return TOKENS.get(family(model))


def typical_price(price: TokenPrice | None) -> float | None:
    return (
        price.cost(input_tokens=TYPICAL_INPUT_TOKENS, output_tokens=TYPICAL_OUTPUT_TOKENS) if price else None
    )


def image_price(model: str, grade: str) -> float | None:
    """Return the table's price of one image with one source; None if it is unknown."""
    known = IMAGES.get(family(model))
    return known.of(grade) if known else None

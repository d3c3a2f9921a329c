"""Pictures as the transformer sees them: encoded, cut into patches, normalised; and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def to_model_range(pixels: torch.Tensor) -> torch.Tensor:
    """n×h×w×3 bytes → n×3×h×w between −1 and 1."""
    return pixels.permute(0, 3, 1, 2).float().div_(127.5).sub_(1)


def to_pixels(pictures: torch.Tensor) -> torch.Tensor:
    """The reverse, rounded as the pipeline rounds."""
    import torch

    scaled = pictures.float().clamp(-1, 1).add(1).mul(127.5).round()
    return scaled.to(torch.uint8).permute(0, 2, 3, 1)


def patchify(latents: torch.Tensor) -> torch.Tensor:
    """n×c×h×w → n×4c×h/2×w/2: squares of four become channels, in the pipeline's order."""
    count, channels, height, width = latents.shape
    squares = latents.view(count, channels, height // 2, 2, width // 2, 2)
    return squares.permute(0, 1, 3, 5, 2, 4).reshape(count, channels * 4, height // 2, width // 2)


def unpatchify(patches: torch.Tensor) -> torch.Tensor:
    count, channels, height, width = patches.shape
    squares = patches.reshape(count, channels // 4, 2, 2, height, width)
    return squares.permute(0, 1, 4, 2, 5, 3).reshape(count, channels // 4, height * 2, width * 2)


class LatentSpace:
    """A trained VAE with its normalisation: pixels ⇄ n × tokens × channels."""

    def __init__(self, vae: Any, encode: Any = None) -> None:
        import torch

        self.vae = vae
        self._encode = encode or (lambda pictures: vae.encode(pictures).latent_dist.mode())
        self.mean = vae.bn.running_mean.view(1, -1, 1, 1)
        self.std = torch.sqrt(vae.bn.running_var.view(1, -1, 1, 1) + vae.config.batch_norm_eps)

    def tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """Bytes → tokens."""
        patches = patchify(self._encode(to_model_range(pixels)).float())
        return ((patches - self.mean) / self.std).flatten(2).transpose(1, 2)

    def pixels(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens → bytes."""
        count, length, channels = tokens.shape
        side = int(length**0.5)
        patches = tokens.transpose(1, 2).reshape(count, channels, side, side).float() * self.std + self.mean
        return to_pixels(self.vae.decode(unpatchify(patches).to(self.vae.dtype)).sample)

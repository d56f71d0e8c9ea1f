"""The networks that are compared: what each is made of."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from flax import nnx

from attn_jax.models.cbam import ConvolutionalBlockAttention
from attn_jax.models.resnet import ResNet, ResNetConfig
from attn_jax.models.senet import SqueezeExcitation
from attn_jax.models.swin import Swin, SwinConfig
from attn_jax.models.vit import ViT, ViTConfig

Make = Callable[[nnx.Rngs], nnx.Module]


@dataclass
class Sizes:
    """How large the networks are.

    Args:
      patch: pixels of the side of a patch.
      vit_width, vit_layers, vit_heads: of the ViT.
      swin_width, swin_depths, swin_heads: of the Swin, by stage.
      swin_window: patches of the side of a window.
      swin_ratio: of the width of a feed-forward network to that of its stage.
      width: channels of the first stage of the convolutional networks.
      depths: their blocks, by stage.
      reduction: of the gates' hidden layers.
      kernel: of the gates of places.
      mixed: kernels that a dynamic convolution mixes.
      wider: how many times wider the "wide" network is.
    """

    patch: int = 2
    vit_width: int = 32
    vit_layers: int = 3
    vit_heads: int = 4
    swin_width: int = 16
    swin_depths: tuple[int, ...] = (2, 2)
    swin_heads: tuple[int, ...] = (2, 4)
    swin_window: int = 2
    swin_ratio: float = 4.75
    width: int = 16
    depths: tuple[int, ...] = (1, 2)
    reduction: int = 4
    kernel: int = 3
    mixed: int = 4
    wider: int = 2


def vit(sizes: Sizes, shape: tuple[int, ...], classes: int) -> Make:
    """Attention among all patches."""
    config = ViTConfig(shape[:2], sizes.patch, shape[2], classes)  # type: ignore[arg-type]
    config = config.sized(sizes.vit_width, sizes.vit_layers, sizes.vit_heads)
    return lambda rngs: ViT(config, rngs=rngs)


def swin(sizes: Sizes, shape: tuple[int, ...], classes: int) -> Make:
    """Attention inside windows, at half the resolution in each stage."""
    config = SwinConfig(
        patch=sizes.patch,
        channels=shape[2],
        classes=classes,
        width=sizes.swin_width,
        depths=sizes.swin_depths,
        heads=sizes.swin_heads,
        window=sizes.swin_window,
        ratio=sizes.swin_ratio,
        depth_dropout=0.0,
    )
    return lambda rngs: Swin(config, rngs=rngs)


def convolutional(
    sizes: Sizes,
    shape: tuple[int, ...],
    classes: int,
    gate: str = "",
    where: str = "everywhere",
    **changes: Any,
) -> Make:
    """A small residual network, with gates in its first stage, in its last, or everywhere."""
    config = ResNetConfig(sizes.depths, False, sizes.width, shape[2], classes, "small")
    config = dataclasses.replace(config, **changes)
    gates = {
        "": None,
        "SE": functools.partial(SqueezeExcitation, reduction=sizes.reduction),
        "CBAM": functools.partial(
            ConvolutionalBlockAttention, reduction=sizes.reduction, kernel=sizes.kernel
        ),
        "CBAM in parallel": functools.partial(
            ConvolutionalBlockAttention,
            reduction=sizes.reduction,
            kernel=sizes.kernel,
            order="parallel",
        ),
    }
    last = len(sizes.depths) - 1
    gated = {"early": (0,), "late": (last,), "everywhere": None}[where]
    return lambda rngs: ResNet(config, gate=gates[gate], gated=gated, rngs=rngs)


def dynamic(sizes: Sizes, shape: tuple[int, ...], classes: int) -> Make:
    """The residual network, each convolution of its blocks mixed anew for each image."""
    return convolutional(sizes, shape, classes, kernels=sizes.mixed)


def wide(sizes: Sizes, shape: tuple[int, ...], classes: int) -> Make:
    """The residual network with more channels."""
    return convolutional(sizes, shape, classes, width=sizes.wider * sizes.width)


def _gated(gate: str, where: str = "everywhere") -> Callable[..., Make]:
    return functools.partial(convolutional, gate=gate, where=where)


NETWORKS: dict[str, Callable[[Sizes, tuple[int, ...], int], Make]] = {
    "ViT": vit,
    "Swin": swin,
    "plain": convolutional,
    "SE": _gated("SE"),
    "SE early": _gated("SE", "early"),
    "SE late": _gated("SE", "late"),
    "CBAM": _gated("CBAM"),
    "CBAM early": _gated("CBAM", "early"),
    "CBAM late": _gated("CBAM", "late"),
    "CBAM in parallel": _gated("CBAM in parallel"),
    "dynamic": dynamic,
    "wide": wide,
}


def checked(names: Iterable[str]) -> list[str]:
    """The names themselves.

    Raises:
      ValueError: there are none, or no network has one of them.
    """
    names = list(names)
    if not names or (unknown := [name for name in names if name not in NETWORKS]):
        given = ", ".join(map(repr, unknown)) if names else "none"
        raise ValueError(f"expected networks among {', '.join(NETWORKS)}; got {given}")
    return names

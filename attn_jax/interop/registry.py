"""The published architectures that are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_jax.interop import bert, big_bird, gpt2, image_gpt, longformer, marian, roberta, swin, vit
from attn_jax.interop.architecture import Architecture

ARCHITECTURES: tuple[Architecture, ...] = (
    bert.ARCHITECTURE,
    roberta.ARCHITECTURE,
    longformer.ARCHITECTURE,
    big_bird.ARCHITECTURE,
    gpt2.ARCHITECTURE,
    image_gpt.ARCHITECTURE,
    marian.ARCHITECTURE,
    vit.VIT,
    vit.DEIT,
    swin.ARCHITECTURE,
)


def find(
    config: Mapping[str, Any], wanted: str | None, directory: Path
) -> tuple[Architecture, str]:
    """The architecture and the class that a config.json names.

    Args:
      config: what it says.
      wanted: a class to take instead of the one it names.
      directory: for the error.

    Raises:
      ValueError: it is not known; all that are, are named.
    """
    named = [wanted] if wanted is not None else config.get("architectures") or []
    for architecture in ARCHITECTURES:
        for name in named:
            if name in architecture.classes and config.get("model_type") == architecture.name:
                return architecture, name
    family = config.get("model_type")
    known = [name for a in ARCHITECTURES if a.name == family for name in a.classes]
    if not known:
        families = ", ".join(a.name for a in ARCHITECTURES)
        raise ValueError(
            f"{directory}: unknown architecture: model_type {family!r}; known are {families}"
        )
    raise ValueError(
        f"{directory}: a {family} is read as one of {', '.join(known)}; got {named!r}. Say which as "
        "load(…, architecture=…)"
    )


def form(model: Any) -> Any:
    """One that computes the same as a model of ours, and is made as published ones are."""
    for architecture in ARCHITECTURES:
        if type(model) is architecture.model:
            return architecture.form(model)
    return model


def find_model(model: Any) -> tuple[Architecture, str]:
    """The architecture and the class that a model of ours is published as.

    Raises:
      ValueError: there is none.
    """
    for architecture in ARCHITECTURES:
        if type(model) is architecture.model:
            name = architecture.class_of(model.config)
            if name is not None:
                return architecture, name
    known = ", ".join(sorted({a.model.__name__ for a in ARCHITECTURES}))
    raise ValueError(
        f"no published architecture for {type(model).__name__}"
        f"{f' with {model.config}' if hasattr(model, 'config') else ''}; there is one for {known}"
    )

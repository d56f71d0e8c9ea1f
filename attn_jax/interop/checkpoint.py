"""A directory with a published model: its config.json and its tensors, in safetensors only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from attn_jax.data.files import write_atomically, writing

SINGLE, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.bin")
DTYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": jnp.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


class Checkpoint:
    """What a directory holds; tensors are mapped into memory and read when asked for, in parts.

    Args:
      directory: has config.json, and model.safetensors or the shards that its index names.

    Raises:
      FileNotFoundError: a file is missing, or the tensors are there as a pickle only.
      ValueError: a file is not what its name says.
      ImportError: the safetensors package is missing.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        if not self.directory.is_dir():
            raise FileNotFoundError(f"no directory {self.directory} to load a model from")
        self.config = _json(self.directory / CONFIG)
        self._slices: dict[str, Any] = {}
        for file, names in _files(self.directory).items():
            opened = _open(file)
            held = set(opened.keys())
            if names is not None and (absent := sorted(names - held)):
                raise ValueError(f"{file} lacks {', '.join(absent)}, which {INDEX} says it has")
            for name in held if names is None else names:
                self._slices[name] = opened.get_slice(name)

    @property
    def names(self) -> set[str]:
        """The tensors there are."""
        return set(self._slices)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self._slices[name].get_shape())

    def dtype(self, name: str) -> Any:
        """The dtype of a tensor."""
        given = self._slices[name].get_dtype()
        if given not in DTYPES:
            raise ValueError(
                f"{self.directory}: {name} is {given}, expected one of {', '.join(DTYPES)}"
            )
        return np.dtype(DTYPES[given])

    def read(self, name: str, index: tuple[slice, ...] | None = None) -> np.ndarray:
        """A tensor, or the part of it at `index`; no more than that is read."""
        lazily = self._slices[name]
        return lazily[index] if index else lazily[...]


def write_checkpoint(
    directory: str | Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, tuple[tuple[int, ...], Any, Callable[[], np.ndarray]]],
) -> None:
    """Writes config.json and model.safetensors, one tensor in memory at a time.

    Args:
      directory: made where it is missing.
      config: what goes into config.json.
      tensors: shape, dtype, and a function that gives the array, by name.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    spelled = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (shape, dtype, _) in tensors.items():
        start, end = end, end + int(np.prod(shape)) * np.dtype(dtype).itemsize
        header[name] = {
            "dtype": spelled[np.dtype(dtype)],
            "shape": list(shape),
            "data_offsets": [start, end],
        }
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    with writing(directory / SINGLE, binary=True) as file:
        file.write(len(written).to_bytes(8, "little") + written)
        for _, dtype, array in tensors.values():
            file.write(np.ascontiguousarray(array(), dtype).tobytes())
    write_atomically(directory / CONFIG, json.dumps(dict(config), indent=2, sort_keys=True) + "\n")


def _files(directory: Path) -> dict[Path, set[str] | None]:
    """The safetensors files, each with the names the index says it has."""
    if (directory / SINGLE).exists():
        return {directory / SINGLE: None}
    if (directory / INDEX).exists():
        named = _json(directory / INDEX).get("weight_map")
        if not isinstance(named, dict) or not named:
            raise ValueError(f'{directory / INDEX} has no "weight_map" from tensors to files')
        files: dict[Path, set[str] | None] = {}
        for name, file in named.items():
            if Path(file).name != file:
                raise ValueError(
                    f"{directory / INDEX} names {file!r}, expected a file beside it, not a path"
                )
            files[directory / file] = (files.get(directory / file) or set()) | {name}
        return files
    if pickles := [name for name in PICKLES if (directory / name).exists()]:
        raise FileNotFoundError(
            f"{directory} has {pickles[0]} but no {SINGLE}: a .bin file is a pickle, which can run "
            "code, and is never read. Convert it where you trust it: transformers.AutoModel…"
            f".from_pretrained({str(directory)!r}).save_pretrained(new_directory)"
        )
    raise FileNotFoundError(f"{directory} has neither {SINGLE} nor {INDEX}")


def _open(file: Path) -> Any:
    try:
        import safetensors
    except ImportError as error:
        raise ImportError("to load a published model: pip install safetensors") from error
    if not file.is_file():
        raise FileNotFoundError(f"no file {file}, which {INDEX} names")
    try:
        return safetensors.safe_open(file, framework="numpy")
    except safetensors.SafetensorError as error:
        raise ValueError(f"{file} is no whole safetensors file: {error}") from error


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise FileNotFoundError(f"no file {file}: a published model is a {CONFIG} with a {SINGLE}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} holds a {type(content).__name__}, expected an object")
    return content

"""Compiled programs kept from one process to the next."""

import hashlib
import os
import platform
from pathlib import Path

import jax


def enable_compilation_cache(directory: str | os.PathLike | None = None) -> Path:
    """Lets JAX keep compiled programs in a directory that only this user can write to.

    Args:
      directory: `$XDG_CACHE_HOME/attn_jax/xla` by default, `~/.cache` where that is not set. Below
        it, machines with different processors have different directories, since a program
        compiled for one may not run on another.

    Returns:
      The directory in use.
    """
    if directory is None:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        directory = Path(cache) / "attn_jax" / "xla"
    path = Path(directory) / _processor()
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    return path


def _processor() -> str:
    features = [platform.machine()]
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(errors="replace").splitlines()
        features += sorted({line for line in lines if line.startswith(("flags", "Features"))})
    return f"{platform.machine()}-{hashlib.sha256(os.linesep.join(features).encode()).hexdigest()[:12]}"

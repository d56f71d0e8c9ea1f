"""What devices can do at most, as their makers publish it."""

_PEAKS = {
    "TPU v2": 22.5e12,  # a JAX device is one of the two cores of a chip
    "TPU v3": 61.5e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5e": 197e12,
    "TPU v5": 459e12,
    "TPU v5p": 459e12,
    "TPU v6 lite": 918e12,
    "TPU v6e": 918e12,
    "Tesla T4": 65e12,
    "Tesla V100": 125e12,
    "NVIDIA L4": 121e12,
    "NVIDIA A100": 312e12,
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA H200": 989e12,
    "NVIDIA B200": 2250e12,
}


def peak_flops(device_kind: str) -> float | None:
    """Multiplications and additions per second in bfloat16 (float16 where there is none), dense.

    Args:
      device_kind: as JAX calls it; memory sizes and sockets at its end do not matter.

    Returns:
      The number in the maker's data sheet, or None where it is not known here.

    >>> peak_flops("NVIDIA A100-SXM4-80GB"), peak_flops("TPU v5 lite"), peak_flops("cpu")
    (312000000000000.0, 197000000000000.0, None)
    """
    known = [kind for kind in _PEAKS if device_kind.split("-")[0].startswith(kind)]
    whole = [kind for kind in known if device_kind[len(kind) : len(kind) + 1] in ("", "-", " ")]
    return _PEAKS[max(whole, key=len)] if whole else None

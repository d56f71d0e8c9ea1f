"""Imports point one way. They are read, not run: what a function imports late counts as well.

functional ← backends ← modules ← models ← {decode, interop}, and {data, train, diagnostics} ←
experiments. Nothing of the package knows the experiments, their configs or the tests.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "attn_jax"

MAY_IMPORT = {
    "functional": set(),
    "backends": {"functional"},
    "modules": {"functional", "backends"},
    "models": {"functional", "backends", "modules"},
    "decode": {"functional", "backends", "modules", "models"},
    "interop": {"functional", "backends", "modules", "models"},
    "data": set(),
    "train": set(),
    "diagnostics": {"functional", "backends", "modules"},
}
ANYONE_MAY_IMPORT = {"attn_jax.data.files"}
OUTSIDE = {"experiments", "configs", "tests", "benchmarks"}
FORBIDDEN_LIBRARIES = {"functional": {"flax"}, "backends": {"flax"}}


def imports(path, package=ROOT):
    """Every module that a file imports, by its full name."""
    here = path.relative_to(package).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            for (
                alias
            ) in node.names:  # `from attn_jax import masks` imports from attn_jax.functional
                yield f"{module}.{alias.name}"


def room_of(path):
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


def public_names():
    """Names of attn_jax/__init__.py, and the room each comes from."""
    for node in ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            room = (node.module or "").split(".")[1:2]
            yield from ((alias.name, room[0] if room else alias.name) for alias in node.names)


PUBLIC = dict(public_names())


def rooms_imported(path):
    """(room, module) for each import from the package."""
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "attn_jax" and len(parts) > 1:
            yield PUBLIC.get(parts[1], parts[1]), name


def allowed(room, target, name):
    return (
        target == room
        or target in MAY_IMPORT[room]
        or any(name == free or name.startswith(f"{free}.") for free in ANYONE_MAY_IMPORT)
    )


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_room_has_its_place():
    assert {room_of(path) for path in FILES} - {None} <= set(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_point_one_way(room):
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in FILES
        if room_of(path) == room
        for target, name in rooms_imported(path)
        if not allowed(room, target, name)
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_in_the_package_knows_what_is_built_on_it():
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in FILES
        for name in imports(path)
        if name.split(".")[0] in OUTSIDE
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", FORBIDDEN_LIBRARIES)
def test_mathematics_is_free_of_frameworks(room):
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in FILES
        if room_of(path) == room
        for name in imports(path)
        if name.split(".")[0] in FORBIDDEN_LIBRARIES[room]
    ]
    assert not wrong, "\n".join(wrong)


def test_experiments_and_configs_are_not_imported_by_each_others_back():
    """Configs are data: they build on experiments and the package, never on tests."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for folder in ("experiments", "configs", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imports(path)
        if name.split(".")[0] == "tests" or (folder == "experiments" and name.startswith("configs"))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_reader_reads_what_python_would(tmp_path):
    inner = tmp_path / "attn_jax" / "functional" / "masks.py"
    inner.parent.mkdir(parents=True)
    inner.write_text(
        "import os, attn_jax.data.files as f\nfrom . import mask\nfrom ..backends import dense\n"
        "from .tiles import Tile\ndef late():\n    from attn_jax.train import loop\n",
        encoding="utf-8",
    )
    assert sorted(imports(inner, tmp_path)) == [
        "attn_jax.backends.dense",
        "attn_jax.data.files",
        "attn_jax.functional.mask",
        "attn_jax.functional.tiles.Tile",
        "attn_jax.train.loop",
        "os",
    ]

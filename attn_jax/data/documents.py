"""Text in one language, as documents, and how a part of it is held out."""

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from attn_jax.data.lines import read_lines


@dataclasses.dataclass(frozen=True)
class Documents:
    """Documents to train on, and documents to be judged by; no paragraph is in both.

    Raises:
      ValueError: a part has no text.
    """

    train: tuple[str, ...]
    heldout: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("train", "heldout"):
            if not any(text.strip() for text in getattr(self, name)):
                raise ValueError(
                    f"there is too little text: the part named {name} of {len(self.train)} and"
                    f" {len(self.heldout)} documents is empty"
                )


def python_reference(heldout: float = 0.1) -> Documents:
    """The Python language reference that every interpreter carries for `help()`, topic by topic.

    Its text is that of docs.python.org, © Python Software Foundation, under the PSF License
    Version 2; the examples in it are under Zero-Clause BSD as well. It differs between versions of
    Python: 465 to 511 thousand characters.

    Args:
      heldout: the part of the topics that is held out, the last ones.
    """
    from pydoc_data.topics import topics

    return hold_out([topics[name] for name in sorted(topics)], heldout)


def read_documents(path: str | os.PathLike, heldout: float = 0.1) -> Documents:
    """A text file, or all of a directory, whose last paragraphs are held out.

    Args:
      path: a UTF-8 file, unpacked if its name ends in `.gz`; or a directory, of which each `.txt`
        is a document, in the order of their names, and the last documents are held out.
      heldout: the part that is held out, in [0, 1).

    Raises:
      FileNotFoundError: there is no such file, or no text in the directory.
      ValueError: it is not UTF-8, or so short that a part would be empty.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(path.glob("*.txt"))
        if not files:
            raise FileNotFoundError(f"no .txt file in {path}")
        return hold_out(["\n".join(read_lines(file)) for file in files], heldout)
    parts = hold_out(paragraphs("\n".join(read_lines(path))), heldout)
    return Documents(("\n\n".join(parts.train),), ("\n\n".join(parts.heldout),))


def hold_out(documents: Sequence[str], heldout: float) -> Documents:
    """The last documents apart from the others, from which their paragraphs are left out.

    Args:
      documents: at least two.
      heldout: the part of them that is held out: at least one, and not all.

    Raises:
      ValueError: the part is none, or there are too few documents.

    >>> hold_out(["a\\n\\nb", "c", "b\\n\\nd"], 0.1)
    Documents(train=('a', 'c'), heldout=('b\\n\\nd',))
    """
    if not 0 < heldout < 1 or len(documents) < 2:
        raise ValueError(
            "expected a part to hold out in (0, 1) and at least two documents or paragraphs, got"
            f" {heldout} and {len(documents)}"
        )
    count = min(len(documents) - 1, max(1, round(heldout * len(documents))))
    known = {x.strip() for text in documents[-count:] for x in paragraphs(text)}
    kept = (
        "\n\n".join(x for x in paragraphs(text) if x.strip() not in known)
        for text in documents[:-count]
    )
    return Documents(tuple(text for text in kept if text), tuple(documents[-count:]))


def paragraphs(text: str) -> list[str]:
    """What blank lines are between, each with its own line ends and indentation.

    >>> paragraphs("\\n  one\\ntwo\\n\\n\\nthree\\n")
    ['  one\\ntwo', 'three']
    """
    parts = re.split(r"\n(?:[ \t]*\n)+", text)
    return [part.strip("\n") for part in parts if part.strip()]

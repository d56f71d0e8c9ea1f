"""What a run leaves in its workdir, and how another finds it there."""

from pathlib import Path

from experiments import workdir
from experiments.language_model.system import System


class Workdir(workdir.Workdir[System]):
    """The files of a language model's run."""

    system = System
    free = workdir.Workdir.free | {"generate"}
    of_training = frozenset({"data", "optimizer", "train", "seed"})

    def __init__(self, path: Path):
        super().__init__(path)
        self.samples = path / "samples.txt"

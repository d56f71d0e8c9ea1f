"""What a run leaves in its workdir, and how another finds it there."""

from experiments import workdir
from experiments.masked_language_model.system import System


class Workdir(workdir.Workdir[System]):
    """The files of a masked language model's run."""

    system = System
    free = workdir.Workdir.free | {"fill", "judged"}
    of_training = frozenset({"data", "masking", "optimizer", "train", "seed"})

"""What a run leaves in its workdir, and how another finds it there."""

from experiments import workdir
from experiments.masked_language_model.system import System


class Workdir(workdir.Workdir[System]):
    """The files of a masked language model's run."""

    system = System
    free = frozenset(
        {
            "fill",
            "judged",
            "train.steps",
            "train.patience",
            "train.log_every",
            "train.evaluate_every",
            "train.save_every",
            "optimizer.learning_rate",
        }
    )
    of_training = frozenset({"data", "masking", "optimizer", "train", "seed"})

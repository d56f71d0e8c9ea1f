"""What a run of the classification of images is asked for: the sections of a config file."""

from dataclasses import dataclass, field
from typing import Self

from attn_jax.data.images import LabelledImages, digits, tfds_images
from experiments.classify_images.networks import Sizes, checked


@dataclass
class Data:
    """Which images.

    Args:
      name: digits, scikit-learn's; or a set of TensorFlow Datasets, such as mnist or cifar10.
      directory: TensorFlow Datasets' own; empty for `~/tensorflow_datasets`.
      splits: of such a set, to learn from and to judge by; slices are understood, `train[:10%]`.
      size: pixels that the sides of such images are brought to; 0 leaves them as they are.
      examples: of how many images is learned, the first ones; 0 for all.
    """

    name: str = "digits"
    directory: str = ""
    splits: tuple[str, str] = ("train", "test")
    size: int = 0
    examples: int = 0

    def load(self) -> LabelledImages:
        """The images.

        Raises:
          ValueError, OSError: they are not there, or are no images with labels.
        """
        if self.name == "digits":
            found = digits()
        else:
            train, test = self.splits
            found = tfds_images(self.name, self.directory or None, (train, test), self.size or None)
        return found._replace(train=found.train.first(self.examples or found.train.number))


@dataclass
class Training:
    """AdamW, on random images.

    Args:
      rows: images of a step.
      steps: how many, where all networks make as many.
      seconds: of training, where all networks have as many, the processor's on a CPU; 0 leaves
        that out.
      rate: the largest, after a tenth of the steps; it ends at 0.
      decay: of weights.
    """

    rows: int = 64
    steps: int = 400
    seconds: float = 3.0
    rate: float = 1e-2
    decay: float = 0.05


@dataclass
class Config:
    """A run; see the sections.

    Args:
      networks: which, one by one; `experiments/classify_images/networks.py` has their names.
      seeds: numbers are means over these; what is drawn is of the first.
    """

    networks: tuple[str, ...] = ("ViT", "Swin", "plain", "SE", "CBAM")
    seeds: tuple[int, ...] = (0, 1, 2)
    data: Data = field(default_factory=Data)
    sizes: Sizes = field(default_factory=Sizes)
    train: Training = field(default_factory=Training)

    def checked(self) -> Self:
        """The config itself.

        Raises:
          ValueError: a number is out of its range, or there is no network of a name.
        """
        checked(self.networks)
        train = self.train
        if train.rows < 2 or train.steps < 1 or not self.seeds:
            raise ValueError(
                "expected train.rows of at least 2, train.steps of at least 1 and some seeds, got"
                f" {train.rows}, {train.steps} and {self.seeds}"
            )
        if not (train.rate > 0 and train.decay >= 0 and train.seconds >= 0):
            raise ValueError(
                "expected a positive train.rate, and train.decay and train.seconds of at least 0;"
                f" got {train.rate}, {train.decay} and {train.seconds}"
            )
        return self

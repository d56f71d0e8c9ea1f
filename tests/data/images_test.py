"""Images with labels: scikit-learn's digits, and sets prepared as a user would."""

import numpy as np
import pytest

from attn_jax.data.images import Images, digits, tfds_images

COUNTS = {"train": 6, "test": 4}


def picture(label, side=5):
    return np.arange(side * side, dtype=np.uint8).reshape(side, side) + np.uint8(10 * label)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Grey pictures of one size, and others of several, but for the want of TensorFlow."""
    import tensorflow_datasets
    from PIL import Image

    features = tensorflow_datasets.features

    class Greys(tensorflow_datasets.core.GeneratorBasedBuilder):
        VERSION = tensorflow_datasets.core.Version("1.0.0")
        side = staticmethod(lambda i: 5)

        def _info(self):
            fields = {
                "image": features.Image(shape=(None, None, 1), encoding_format="png"),
                "label": features.ClassLabel(num_classes=3),
            }
            return self.dataset_info_from_configs(features=features.FeaturesDict(fields))

        def _split_generators(self, dl_manager):
            return {name: self._generate_examples(n) for name, n in COUNTS.items()}

        def _generate_examples(self, n):
            for i in range(n):
                image = Image.fromarray(picture(i % 3, self.side(i)))
                yield i, {"image": image, "label": i % 3}

    class Uneven(Greys):
        side = staticmethod(lambda i: 4 + 4 * (i % 2))

    path = tmp_path_factory.mktemp("tfds")
    for builder in (Greys, Uneven):
        builder(data_dir=path, file_format="array_record").download_and_prepare()
    return path


@pytest.mark.slow
def test_a_prepared_set_is_read_with_its_labels(directory):
    found = tfds_images("greys", directory)
    assert (found.train.number, found.test.number, found.classes) == (6, 4, 3)
    for image, label in zip(found.train.pixels, found.train.labels):
        np.testing.assert_array_equal(image[..., 0], picture(label))
    np.testing.assert_allclose(found.test.scaled * 255, found.test.pixels, atol=1e-4)
    assert tfds_images("greys", directory, ("train[:2]", "test")).train.number == 2


@pytest.mark.slow
def test_images_are_brought_to_a_size_by_the_mean_of_what_a_pixel_covers(directory):
    found = tfds_images("uneven", directory, size=4)
    for image, label in zip(found.train.pixels, found.train.labels):
        whole = [picture(label, side).astype(float) for side in (4, 8)]
        means = [x.reshape(4, len(x) // 4, 4, len(x) // 4).mean((1, 3)) for x in whole]
        assert min(np.abs(image[..., 0] - x).max() for x in means) <= 0.5
    with pytest.raises(ValueError, match=r"differ in size: give one .* size=64"):
        tfds_images("uneven", directory)


def test_what_is_not_there_is_refused_with_what_helps(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"(?s)mnist is not in .*tfds build mnist"):
        tfds_images("mnist", tmp_path)


def test_the_first_images_are_as_many_as_there_are():
    images = Images(np.zeros((3, 2, 2, 1), np.uint8), np.arange(3, dtype=np.int32), 16)
    assert images.first(2).labels.tolist() == [0, 1]
    with pytest.raises(ValueError, match="from 1 to 3 images, got 4"):
        images.first(4)


@pytest.mark.slow
def test_digits_are_all_there_once_and_both_parts_have_every_class():
    datasets = pytest.importorskip("sklearn.datasets", reason="the digits are scikit-learn's")
    found, known = digits(), datasets.load_digits()
    assert (found.train.number, found.test.number, found.classes) == (1438, 359, 10)
    both = np.concatenate([found.train.pixels, found.test.pixels])[..., 0]
    labels = np.concatenate([found.train.labels, found.test.labels])

    def rows(images, labels):
        flat = images.reshape(len(labels), -1).astype(int)
        return sorted(map(tuple, np.column_stack([flat, labels])))

    assert rows(both, labels) == rows(known.images, known.target)
    for part in (found.train, found.test):
        assert np.bincount(part.labels, minlength=10).min() > 0.05 * part.number
    np.testing.assert_array_equal(digits().test.pixels, found.test.pixels)

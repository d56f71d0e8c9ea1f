import shutil

import pytest

from attn_jax.data.tfds_corpora import _text, tfds

SPLITS = {"train": 9, "validation": 2, "test": 3}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A translation set, prepared as a user would, but for the want of TensorFlow."""
    import tensorflow_datasets

    class TinyTranslate(tensorflow_datasets.core.GeneratorBasedBuilder):
        VERSION = tensorflow_datasets.core.Version("1.0.0")

        def _info(self):
            features = tensorflow_datasets.features.Translation(languages=("en", "fr"))
            return self.dataset_info_from_configs(features=features)

        def _split_generators(self, dl_manager):
            return {name: self._generate_examples(name, n) for name, n in SPLITS.items()}

        def _generate_examples(self, name, n):
            for i in range(n):
                yield i, {"en": f"{name} {i}", "fr": f"{name} numéro {i}"}

    path = tmp_path_factory.mktemp("tfds")
    TinyTranslate(data_dir=path, file_format="array_record").download_and_prepare()
    return path


def test_a_prepared_set_is_read_in_either_direction(directory):
    forward = tfds("tiny_translate", ("en", "fr"), directory)
    backward = tfds("tiny_translate", ("fr", "en"), directory)
    for name, n in SPLITS.items():
        expected = {(f"{name} {i}", f"{name} numéro {i}") for i in range(n)}
        assert set(getattr(forward, name)) == expected
        assert {(e, f) for f, e in getattr(backward, name)} == expected
    assert (forward.source_language, forward.target_language) == ("en", "fr")


def test_slices_of_splits_are_understood(directory):
    corpus = tfds("tiny_translate", ("en", "fr"), directory, ("train[:6]", "train[6:]", "test"))
    assert (len(corpus.train), len(corpus.validation), len(corpus.test)) == (6, 3, 3)


def test_a_language_or_split_it_has_not_is_refused_with_those_it_has(directory):
    with pytest.raises(ValueError, match="tiny_translate has no de; it has en, fr"):
        tfds("tiny_translate", ("en", "de"), directory)
    with pytest.raises(ValueError, match=r"no split 'dev'; it has .*validation"):
        tfds("tiny_translate", ("en", "fr"), directory, ("train", "dev", "test"))


@pytest.mark.parametrize(
    "name", ["wmt14_translate/de-en", "ted_hrlr_translate/pt_to_en", "nonsense"]
)
def test_a_set_that_is_not_prepared_says_how_to_prepare_it(tmp_path, name):
    with pytest.raises(
        FileNotFoundError,
        match=f"(?s){name} is not in {tmp_path}.*tensorflow-cpu.*tfds build {name} .*array_record",
    ):
        tfds(name, ("de", "en"), tmp_path)


def test_a_set_in_another_format_says_how_to_prepare_it(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "copy")
    (info,) = copy.rglob("dataset_info.json")
    info.write_text(info.read_text().replace("array_record", "tfrecord"))
    with pytest.raises(FileNotFoundError, match=r"is in tfrecord files.*array_record"):
        tfds("tiny_translate", ("en", "fr"), copy)


def test_text_may_come_as_bytes_or_not():
    assert _text("numéro".encode()) == _text("numéro") == "numéro"

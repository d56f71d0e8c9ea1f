import gzip
import hashlib
from pathlib import Path

import pytest

from attn_jax.data import corpora
from attn_jax.data.corpora import aligned, multi30k, tab_separated

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def write(path, text):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def numbered(side, n):
    return "".join(f"{side}{i}\n" for i in range(n))


@pytest.fixture
def files(tmp_path):
    """A function that writes texts and returns their paths."""
    count = iter(range(99))
    return lambda *texts: tuple(write(tmp_path / f"text{next(count)}", text) for text in texts)


class TestAligned:
    def test_lines_correspond(self, files):
        train = files("a\r\n  b \u2028c\r\nd\r\n", "A\nB\nD")  # Windows; no last line end
        validation, test = files("e\n\n", "E\n\n"), files("f\n", "F\n")
        corpus = aligned(train, validation, test, languages=("en", "fr"))
        assert list(corpus.train) == [("a", "A"), ("  b \u2028c", "B"), ("d", "D")]
        assert list(corpus.validation) == [("e", "E"), ("", "")]  # evaluation keeps blank lines
        assert list(corpus.test) == [("f", "F")]
        assert (corpus.source_language, corpus.target_language) == ("en", "fr")

    def test_what_is_not_given_is_held_out(self, files):
        train, test = files(numbered("s", 40), numbered("t", 40)), files("f\n", "F\n")
        both, one = aligned(train), aligned(train, test=test)
        assert (len(both.train), len(both.validation), len(both.test)) == (36, 2, 2)
        assert (len(one.train), len(one.validation), list(one.test)) == (38, 2, [("f", "F")])

    def test_unequal_files_are_named_with_their_counts(self, files):
        source, target = files("a\nb\nc\n", "A\nB\n")
        with pytest.raises(ValueError, match=f"{source} has 3 lines, {target} has 2"):
            aligned((source, target))

    def test_empty_missing_and_badly_encoded_files_are_refused(self, files, tmp_path):
        good, empty, bad = files("a\n", "", "a\né\n".encode("latin-1"))
        with pytest.raises(ValueError, match=f"{empty} and {empty} are empty"):
            aligned((empty, empty))
        with pytest.raises(FileNotFoundError, match="nowhere"):
            aligned((good, tmp_path / "nowhere"))
        with pytest.raises(ValueError, match=f"{bad}, line 2: not UTF-8"):
            aligned((bad, bad))


class TestTabSeparated:
    def test_two_or_three_columns_in_either_direction(self, files):
        lines = [f"s{i}\tt{i}" + f"\tby {i}" * (i % 2) for i in range(40)]
        (path,) = files("\n".join(lines) + "\n\n")
        forward, backward = tab_separated(path), tab_separated(path, columns=(1, 0))
        assert (len(forward.train), len(forward.validation), len(forward.test)) == (36, 2, 2)
        assert {s[1:] for s in forward.train.source} == {t[1:] for t in forward.train.target}
        assert set("".join(backward.train.source)) - set("0123456789") == {"t"}
        assert len(tab_separated(path, held_out=0).train) == 40

    @pytest.mark.parametrize("line", ["alone", "a\tb\tc\td"])
    def test_another_number_of_columns_is_refused(self, files, line):
        (path,) = files(f"a\tb\n\n{line}\n")
        with pytest.raises(ValueError, match=f"{path}, line 3: expected 2 or 3 columns"):
            tab_separated(path)

    def test_an_empty_file_and_odd_columns_are_refused(self, files):
        (path,) = files("\n\n")
        with pytest.raises(ValueError, match="is empty"):
            tab_separated(path)
        with pytest.raises(ValueError, match=r"expected columns to be .*, got \(0, 2\)"):
            tab_separated(path, columns=(0, 2))

    @pytest.mark.skipif(not SHARED.is_dir(), reason="the shared Tatoeba sentences are not here")
    def test_tatoeba(self):
        corpus = tab_separated(SHARED / "tatoeba" / "eng-cmn.tsv", languages=("en", "zh"))
        counts = [len(part) for part in (corpus.train, corpus.validation, corpus.test)]
        assert sum(counts) == 21_116
        assert counts[1] == counts[2] == 1056
        assert not set(corpus.train.source) & {*corpus.validation.source, *corpus.test.source}
        assert not set(corpus.train.target) & {*corpus.validation.target, *corpus.test.target}


NAMES = [
    f"{split}.{language}"
    for split in ("train", "val", "test_2016_flickr")
    for language in ("en", "fr")
]


class TestMulti30k:
    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_from_a_directory_packed_or_not(self, tmp_path, suffix):
        for name in NAMES:
            write(tmp_path / (name + suffix), name + "\n")
        corpus = multi30k("fr-en", directory=tmp_path)
        assert list(corpus.train) == [("train.fr", "train.en")]
        assert list(corpus.validation) == [("val.fr", "val.en")]
        assert list(corpus.test) == [("test_2016_flickr.fr", "test_2016_flickr.en")]
        (tmp_path / ("val.en" + suffix)).unlink()
        with pytest.raises(FileNotFoundError, match=f"expected val.en.gz or val.en in {tmp_path}"):
            multi30k("fr-en", directory=tmp_path)

    def test_downloaded_once_and_verified(self, tmp_path, monkeypatch):
        origin = tmp_path / "origin"
        origin.mkdir()
        sums = {}
        for name in NAMES:
            path = write(origin / (name + ".gz"), name + "\n")
            sums[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        monkeypatch.setattr(corpora, "MULTI30K_URL", origin.as_uri() + "/")
        with pytest.raises(
            ValueError, match=r"another file than expected.*--config\.data\.directory"
        ):
            multi30k(cache=tmp_path / "cache")
        assert not (tmp_path / "cache").exists()
        monkeypatch.setattr(corpora, "_MULTI30K_SHA256", sums)
        first = multi30k(cache=tmp_path / "cache")
        for path in origin.iterdir():
            path.unlink()
        assert multi30k(cache=tmp_path / "cache") == first
        with pytest.raises(
            FileNotFoundError, match=r"cannot download file:.*train\.en\.gz.*--config"
        ):
            multi30k(cache=tmp_path / "other")

    def test_a_pair_it_does_not_have_is_refused(self):
        with pytest.raises(ValueError, match=r"one of en-fr, en-de, .*, fr-de, got 'en-zh'"):
            multi30k("en-zh")

    @pytest.mark.skipif(not SHARED.is_dir(), reason="the shared Multi30k files are not here")
    def test_the_checksums_are_those_of_the_real_files(self):
        for name, expected in corpora._MULTI30K_SHA256.items():
            data = (SHARED / "multi30k" / name).read_bytes()
            assert hashlib.sha256(data).hexdigest() == expected
        corpus = multi30k("en-de", directory=SHARED / "multi30k")
        sizes = [len(part) for part in (corpus.train, corpus.validation, corpus.test)]
        assert sizes == [29_000, 1_014, 1_000]

"""Looking into runs and published models through the command line, in this process."""

import contextlib
import dataclasses
import io
import json
import re
import zlib
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from PIL import Image

from attn_jax import interop
from attn_jax.data.files import write_atomically
from attn_jax.diagnostics.report import Example, Map
from attn_jax.diagnostics.verdicts import CHECKS, Verdict
from attn_jax.models.bert import Bert, BertConfig
from attn_jax.models.gpt import GPT, GPTConfig
from attn_jax.models.image_gpt import ImageGPT, ImageGPTConfig
from attn_jax.models.swin import Swin, SwinConfig
from attn_jax.models.transformer import Transformer, TransformerConfig
from attn_jax.models.vit import ViT, ViTConfig
from attn_jax.modules.blocks import BlockOptions
from attn_jax.train import enable_compilation_cache
from experiments.inspect_attention import images
from experiments.inspect_attention.__main__ import EXPERIMENT, main
from experiments.inspect_attention.excerpts import beginning, squares
from experiments.inspect_attention.language import CLASSIC
from experiments.inspect_attention.runs import read_config
from experiments.language_model.config import Config as LanguageConfig
from experiments.looking import Looked, pictures, show_looked, write_numbers
from experiments.translate.config import Config, Model, Recurrent
from experiments.translate.corpora import Aligned, Multi30k
from experiments.translate.page import look, translation_page
from experiments.translate.system import System
from experiments.translate.workdir import Workdir
from tests.experiments.tiny_translation import Said, refused, write_corpus
from tests.experiments.tiny_translation import run as translate


def run(*words: str) -> Said:
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = main(list(words))
    return Said(code, out.getvalue(), err.getvalue())


def page_of(directory: Path) -> dict:
    text = (directory / "report.html").read_text("utf-8")
    return json.loads(re.search(r'id="report">(.*?)</script>', text, re.S)[1])


def weights_of(given: dict, sequences: list) -> np.ndarray:
    steps = np.frombuffer(zlib.decompress(b64decode(given["weights"])), np.uint8)
    shape = len(given["largest"]), *(len(sequences[given[x]]) for x in ("queries", "keys"))
    return steps.reshape(shape) / 254 * np.array(given["largest"])[:, None, None]


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(data=Multi30k(pair="de-en"), model=Model(width=32), seed=3),
        Config(data=Aligned(), model=Recurrent(attends=False)),
    ],
)
def test_the_config_of_a_run_is_read_back(config, tmp_path):
    workdir = Workdir(tmp_path)
    write_atomically(workdir.config, json.dumps(Workdir.plain(config)))
    found = read_config(workdir.config)
    assert (type(found.data), type(found.model)) == (type(config.data), type(config.model))
    assert Workdir.plain(found) == json.loads(json.dumps(Workdir.plain(config)))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"data": {"corpus": "os"}}'])
def test_what_is_no_config_of_a_run_is_refused(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    refused(run(f"--workdir={tmp_path}"), "config.json is not what experiments.translate or")


def test_the_config_of_a_language_model_is_read_back(tmp_path):
    config = LanguageConfig(seed=7)
    config.model.heads, config.data.unit = 2, "character"
    (tmp_path / "config.json").write_text(json.dumps(dataclasses.asdict(config)))
    assert read_config(tmp_path / "config.json") == config


def test_users_mistakes_are_told_in_a_line(tmp_path):
    refused(run(f"--workdir={tmp_path}/none"), "no run in", "--workdir=RUN", "--model=DIR")
    refused(run(f"--workdir={tmp_path}", "--ids=3"), "--ids means nothing for a run")
    refused(run("--model=gone"), "no directory gone")
    refused(run("--config=configs/translate/quickstart.py"), "no configs")
    refused(run("--modle=x"), "modle")
    said = run("--help")
    assert (said.code, said.err) == (0, "")
    assert "--config" not in said.out
    assert all(f"--{name}:" in said.out for name in (*EXPERIMENT.options, "workdir"))


def test_verdicts_are_letters_by_layer_and_head(tmp_path):
    looked = Looked(
        {"0.attention": np.zeros((1, 2, 3, 3)), "1.attention": np.zeros((1, 1, 3, 3))},
        {"entropy": {"0.attention": np.array([0.5, np.nan])}, "self weight": {}, "influence": {}},
        [
            Verdict(CHECKS["uniform"], "0.attention", (1,), 0.99),
            Verdict(CHECKS["dead"], "0.attention", (1,), 0.0),
            Verdict(CHECKS["not finite"], "1.attention", (), np.nan, "in its keys"),
        ],
    )
    with contextlib.redirect_stdout(io.StringIO()) as out:
        show_looked(looked)
    rows = [line.split("│")[1:-1] for line in out.getvalue().splitlines() if "attention │" in line]
    assert [x.strip() for x in rows[0]] == ["0.attention", "·", "UD"]
    assert [x.strip() for x in rows[1]] == ["1.attention", "N", ""]
    assert "U  uniform: " in out.getvalue()
    assert CHECKS["dead"].reason in out.getvalue()
    written = json.loads(write_numbers(tmp_path / "numbers.json", looked).read_text())
    assert written["measures"]["entropy"] == {"0.attention": [0.5, None]}
    assert written["verdicts"][2] == {
        **{"check": "not finite", "layer": "1.attention", "heads": []},
        **{"found": None, "note": "in its keys"},
    }
    maps = [Map(path, w[0], list("abc"), list("abc")) for path, w in looked.weights.items()]
    assert list(pictures(looked, [Example("a", maps)])) == ["heads-entropy", "example-1-attention"]


def test_an_image_is_read_in_the_models_size_and_normalised_as_it_was_trained(tmp_path):
    Image.new("RGB", (20, 10), (255, 0, 51)).save(tmp_path / "a.png")
    image = images.opened(tmp_path / "a.png", (8, 12))
    pixels = images.pixels(image, tmp_path)
    np.testing.assert_allclose(pixels[0, 0, 0], [1, -1, -0.6], atol=1e-6)
    assert pixels.shape == (1, 8, 12, 3)
    said = {"image_mean": [1, 0, 0.2], "image_std": [0.5, 1, 1]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
    np.testing.assert_allclose(images.pixels(image, tmp_path)[0, 0, 0], 0, atol=1e-6)
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(ValueError, match="no picture"):
        images.opened(tmp_path / "a.txt", (8, 8))
    with pytest.raises(ValueError, match="no colours"):
        images.palette(tmp_path)


def test_a_long_text_is_shown_by_its_beginning_and_the_rest_as_one():
    tokens = [str(i) for i in range(130)]
    shown = beginning(tokens)
    assert shown.tokens == [*tokens[:128], "… 2 more"]
    assert shown.groups.tolist() == [*range(128), 128, 128]
    assert "Of 130 tokens the first 128 are shown" in shown.note
    assert beginning(tokens[:129]) == (tokens[:129], None, None, "")  # one row for one token


def test_an_image_of_many_cells_is_shown_in_squares():
    shown = squares(["class"], (14, 14), 144)  # ViT-B has room
    assert (len(shown.tokens), shown.groups) == (197, None)
    assert shown.cells == (14, 14, [-1, *range(196)])
    shown = squares(["start"], (32, 32), 192, read=1023)  # ImageGPT has not
    assert shown.cells == (8, 8, [-1, *range(64)])
    assert "squares of 4 × 4" in shown.note
    assert shown.groups[:6].tolist() == [0, 1, 1, 1, 1, 2]
    assert shown.groups[1 + 4 * 32] == 9  # the fifth row begins the second row of squares
    assert len(shown.groups) == 1024


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    before = jax.config.jax_compilation_cache_dir
    enable_compilation_cache(tmp_path_factory.mktemp("compiled"))
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.fixture(scope="module")
def trained(compiled_once, tmp_path_factory):
    """A run that counted verdicts, and put two translations on its page."""
    corpus, workdir = (tmp_path_factory.mktemp(name) for name in ("corpus", "run"))
    options = ("--config.train.pictured=2", "--config.train.verdicts=3")
    return workdir, translate(write_corpus(corpus), workdir, *options)


@pytest.mark.slow
def test_a_translation_run_ends_with_its_page(trained):
    workdir, said = trained
    assert (said.code, str(workdir / "report.html") in said.out) == (0, True)
    page = page_of(workdir)
    assert len(page["examples"]) == 2
    kinds = {x["kind"] for x in page["examples"][0]["maps"]}
    assert kinds == {
        *("decoder cross-attention", "encoder self-attention", "decoder self-attention"),
    }
    assert [x["title"] for x in page["tables"]] == ["Scores", "Samples"]
    assert {"loss", "bleu", "verdict_uniform"} <= {x["name"] for x in page["curves"]}
    assert ["train.verdicts", 3] in page["config"]
    lines = [json.loads(x) for x in (workdir / "metrics.jsonl").read_text().splitlines()]
    watched = [x for x in lines if x["split"] == "watched"]
    assert [x["step"] for x in watched] == [4]  # its last, before the hundredth
    for line in watched:
        counts = {x: line[x] for x in line if x.startswith("verdict_")}
        assert len(counts) == len(CHECKS)
        assert counts["verdict_future_visible"] == 0


@pytest.mark.slow
def test_weights_on_the_page_are_the_models_own(trained, tmp_path):
    workdir, _ = trained
    said = run(
        f"--workdir={workdir}", f"--out={tmp_path}", "--text=one red cat", "--target=un gat rot"
    )
    assert said.code == 0
    assert "Verdicts, layer × head" in said.out
    page = page_of(tmp_path)
    assert page["examples"][0]["title"] == "one red cat → un gat rot"
    system, state = Workdir(workdir).trained(read_config(Workdir(workdir).config))
    forced = system.forced("one red cat", "un gat rot")
    bos, eos = system.tokenizer.bos, system.tokenizer.eos
    model = system.model(state.averaged)
    [expected] = model.cross_attention(
        np.array([[*forced.source, eos]]), np.array([[bos, *forced.tokens]])
    )
    (cross,) = [x for x in page["examples"][0]["maps"] if "cross" in x["path"]]
    np.testing.assert_allclose(
        weights_of(cross, page["sequences"]), np.asarray(expected)[0], atol=1 / 255
    )
    assert page["sequences"][cross["queries"]][-1] == page["sequences"][cross["keys"]][-1] == "</s>"
    for line in said.out.splitlines()[-3:]:
        assert Path(line).is_file()


@pytest.mark.slow
def test_its_samples_are_looked_at_where_no_text_is_given(trained, tmp_path):
    workdir, _ = trained
    said = run(f"--workdir={workdir}", f"--out={tmp_path}")
    samples = json.loads((workdir / "result.json").read_text())["samples"]
    titles = [x["title"] for x in page_of(tmp_path)["examples"]]
    assert titles == [f"{x['source']} → {x['translation']}" for x in samples[:3]]
    refused(run(f"--workdir={workdir}", "--target=un gat"), "--target", "--text")
    assert said.code == 0


@pytest.mark.slow
def test_a_recurrent_run_shows_where_it_looks(compiled_once, tmp_path_factory):
    corpus, workdir = (tmp_path_factory.mktemp(name) for name in ("corpus", "run"))
    write_corpus(corpus)
    tokenizer = Workdir(workdir).begin(
        dataclasses.replace(
            Config(),
            data=_aligned(corpus),
            vocabulary=300,
            model=Recurrent(width=8, hidden=8, attention=8),
        ),
        _aligned(corpus).load(),
    )
    system = System(read_config(Workdir(workdir).config), tokenizer)
    state = system.initial_state()
    translation = system.forced("one red cat", "un gat rot")
    looked, [example] = look(system, state, [translation])
    (cross,) = example.maps
    [expected] = system.cross_attention(state.averaged, [translation])
    np.testing.assert_allclose(cross.weights, expected, atol=1e-5)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        show_looked(looked)
    assert re.search(r"cross_attention │ [·U]", out.getvalue())
    report = translation_page(system, looked, [example], Workdir(workdir))
    assert "dead" not in {x.check.name for x in report.verdicts}
    assert report.title.startswith("Bahdanau")
    assert "one attention, of one head" in report.subtitle
    assert "influence" not in report.measures
    assert set(report.measures["entropy"]) == {"cross_attention"}
    without = System(
        dataclasses.replace(system.config, model=Recurrent(width=8, hidden=8, attends=False)),
        tokenizer,
    )
    assert look(without, without.initial_state(), [translation]) == (None, [])
    report = translation_page(without, None, [], Workdir(workdir))
    assert "no attention" in report.subtitle


def _aligned(corpus: Path) -> Aligned:
    data = Aligned()
    for split in (data.train, data.validation, data.test):
        split.source, split.target = f"{corpus}/train.en", f"{corpus}/train.fr"
    return data


BLOCKS = BlockOptions(width=16, hidden=16, heads=2)
SWIN = SwinConfig(
    patch=2, classes=3, width=8, depths=(2, 1), heads=(2, 4), window=4, depth_dropout=0.0
)


COLOURS = ImageGPTConfig(
    *(9, 16, 1),
    blocks=dataclasses.replace(ImageGPTConfig().blocks, width=16, hidden=64, heads=2),
)
MARIAN = TransformerConfig(
    *(31, None, 1, 1, dataclasses.replace(BLOCKS, epsilon=1e-5)),
    **{"interleaved": False, "output_bias": True, "longest": 64},
    **{"padding": 30, "begin": 30, "end": 0},
)


def drawn(make: Callable[[nnx.Rngs], nnx.Module]) -> nnx.Module:
    """A model with drawn numbers, made without running an initializer."""
    graph, state = nnx.split(nnx.eval_shape(lambda: make(nnx.Rngs(0))))
    rng = np.random.default_rng(0)
    numbers = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape) / 3, x.dtype), state)
    return nnx.merge(graph, numbers)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Directories of models of a few parameters."""
    pytest.importorskip("safetensors", reason="published models are safetensors")
    directory = tmp_path_factory.mktemp("published")
    pre = dataclasses.replace(BLOCKS, norm="pre", activation="gelu_tanh", epsilon=1e-5)
    image = dataclasses.replace(BLOCKS, norm="pre", activation="gelu", epsilon=1e-12)
    models = {
        "bert": drawn(lambda rngs: Bert(BertConfig(30, 20, layers=2, blocks=BLOCKS), rngs=rngs)),
        "gpt2": drawn(lambda rngs: GPT(GPTConfig(30, 20, layers=2, blocks=pre), rngs=rngs)),
        "vit": drawn(
            lambda rngs: ViT(ViTConfig(8, 4, classes=3, layers=1, blocks=image), rngs=rngs)
        ),
        "swin": drawn(lambda rngs: Swin(SWIN, rngs=rngs)),
        "imagegpt": drawn(lambda rngs: ImageGPT(COLOURS, rngs=rngs)),
        "marian": drawn(lambda rngs: Transformer(MARIAN, rngs=rngs)),
    }
    for name, model in models.items():
        interop.save(model, directory / name)
    Image.new("RGB", (16, 16), "orange").save(directory / "image.png")
    colours = {"clusters": np.linspace(-1, 1, 24).reshape(8, 3).tolist()}
    (directory / "imagegpt" / "preprocessor_config.json").write_text(json.dumps(colours))
    (directory / "swin" / "preprocessor_config.json").write_text('{"size": {"height": 16}}')
    return directory, models


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_published_language_model_is_looked_into(published, compiled_once, tmp_path, name):
    directory, models = published
    said = run(f"--model={directory / name}", f"--out={tmp_path}", "--ids=3, 7,7,1,12")
    assert (said.code, said.err) == (0, "")
    page = page_of(tmp_path)
    assert page["sequences"] == [["3", "7", "7", "1", "12"]]
    expected = models[name].attention_maps(np.array([[3, 7, 7, 1, 12]]))
    for given, w in zip(page["examples"][0]["maps"], expected, strict=True):
        np.testing.assert_allclose(weights_of(given, page["sequences"]), w[0], atol=1 / 255)
    future = next(x for x in page["measures"] if x["name"] == "future")["values"]
    assert all((max(x) == 0) == (name == "gpt2") for x in future.values())
    refused(run(f"--model={directory / name}", "--ids=3,99"), "from 0 to 29")
    refused(run(f"--model={directory / name}", "--ids=3,x"), "commas between")
    refused(run(f"--model={directory / name}", "--text=a", "--ids=3"), "not both")
    refused(run(f"--model={directory / name}"), "tokenizer.json", "--ids")
    refused(run(f"--model={directory / name}", "--image=a.png"), "--image means nothing")


@pytest.mark.slow
def test_a_tokenizer_of_a_model_directory_reads_the_classic_sentence(
    published, compiled_once, tmp_path
):
    tokenizers = pytest.importorskip("tokenizers", reason="it reads tokenizer.json")
    directory, _ = published
    words = ["[UNK]", *CLASSIC.split()]
    model = tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(directory / "bert" / "tokenizer.json"))
    try:
        assert run(f"--model={directory / 'bert'}", f"--out={tmp_path}").code == 0
    finally:
        (directory / "bert" / "tokenizer.json").unlink()
    page = page_of(tmp_path)
    assert page["sequences"] == [words[1:]]
    assert words[1:][page["examples"][0]["focus"]] == "it"


@pytest.mark.slow
def test_a_published_model_of_images_is_looked_into(published, compiled_once, tmp_path):
    directory, _ = published
    refused(run(f"--model={directory / 'vit'}"), "give --image=FILE")
    refused(run(f"--model={directory / 'vit'}", "--text=a"), "--text means nothing")
    said = run(
        f"--model={directory / 'vit'}", f"--image={directory}/image.png", f"--out={tmp_path}"
    )
    assert (said.code, said.err) == (0, "")
    [example] = page_of(tmp_path)["examples"]
    (given,) = example["maps"]
    assert given["cells"] == {"rows": 2, "columns": 2, "of": [-1, 0, 1, 2, 3]}
    assert example["picture"].startswith("data:image/png;base64,")
    refused(run(f"--model={directory / 'vit'}", "--image=gone.png"), "gone.png")
    refused(run(f"--model={directory / 'vit'}", f"--image={__file__}"), "no picture")


@pytest.mark.slow
def test_a_swin_shows_the_windows_around_places(published, compiled_once, tmp_path):
    directory, models = published
    image = f"--image={directory}/image.png"
    said = run(f"--model={directory / 'swin'}", image, f"--out={tmp_path}")
    assert (said.code, said.err) == (0, "")
    page = page_of(tmp_path)
    _, top_left, *_ = page["examples"]
    assert top_left["title"].endswith("image.png: top left")
    cells = [x["cells"] for x in top_left["maps"]]
    assert [(x["rows"], x["columns"]) for x in cells] == [(8, 8), (8, 8), (4, 4)]
    corner = [8 * y + x for y in range(4) for x in range(4)]
    assert cells[0]["of"] == corner
    assert 0 in cells[1]["of"]  # of the shifted windows one that was rolled together
    assert sorted(cells[1]["of"]) == sorted(8 * y + x for y in (6, 7, 0, 1) for x in (6, 7, 0, 1))
    assert cells[2]["of"] == list(range(16))
    pixels = images.pixels(images.opened(directory / "image.png", (16, 16)), tmp_path)
    expected = models["swin"].attention_maps(pixels)
    for given, w in zip(top_left["maps"], expected, strict=True):
        window = 3 if given is top_left["maps"][1] else 0
        got = weights_of(given, page["sequences"])
        np.testing.assert_allclose(got, w[0, window], atol=1 / 255)


@pytest.mark.slow
def test_an_image_gpt_reads_colours_after_a_start(published, compiled_once, tmp_path):
    directory, _ = published
    image = f"--image={directory}/image.png"
    said = run(f"--model={directory / 'imagegpt'}", image, f"--out={tmp_path}")
    assert (said.code, said.err) == (0, "")
    page = page_of(tmp_path)
    [example] = page["examples"]
    assert page["sequences"][example["maps"][0]["queries"]][:2] == ["start", "0, 0"]
    assert example["maps"][0]["cells"]["of"] == [-1, *range(15)]  # the last is never read
    refused(run(f"--model={directory / 'imagegpt'}", "--ids=8"), "each from 0 to 7")
    refused(run(f"--model={directory / 'imagegpt'}", "--ids=8", image), "--image means nothing")
    assert run(f"--model={directory / 'imagegpt'}", "--ids=1,2", f"--out={tmp_path}").code == 0


@pytest.mark.slow
def test_a_marian_is_looked_into_as_its_beam_translates(published, compiled_once, tmp_path):
    directory, models = published
    words = ("--ids=5,6,7", f"--out={tmp_path}")
    said = run(f"--model={directory / 'marian'}", *words)
    assert (said.code, said.err) == (0, "")
    page = page_of(tmp_path)
    [example] = page["examples"]
    assert [x["kind"] for x in example["maps"]] == [
        *("decoder cross-attention", "encoder self-attention", "decoder self-attention"),
    ]
    cross = example["maps"][0]
    assert page["sequences"][cross["keys"]] == ["5", "6", "7", "0"]
    assert run(f"--model={directory / 'marian'}", *words, "--target=9,8").code == 0
    page = page_of(tmp_path)
    cross = page["examples"][0]["maps"][0]
    assert page["sequences"][cross["queries"]] == ["9", "8", "0"]
    [expected] = models["marian"].cross_attention(np.array([[5, 6, 7, 0]]), np.array([[30, 9, 8]]))
    np.testing.assert_allclose(weights_of(cross, page["sequences"]), expected[0], atol=1 / 255)
    refused(run(f"--model={directory / 'marian'}"), "lacks source.spm, target.spm, vocab.json")
    refused(run(f"--model={directory / 'marian'}", "--ids=31"), "from 0 to 30")

import base64
import json
import math
import re
import zlib

import numpy as np
import pytest

from attn_jax.diagnostics.page_data import kind_and_layer, quantised
from attn_jax.diagnostics.report import (
    Cells,
    Example,
    Map,
    Report,
    write_report,
)
from attn_jax.diagnostics.verdicts import CHECKS, Verdict

rng = np.random.default_rng(0)
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--",
    "&lt;",
    "\u2028",
    "$title",
    "${data}",
    "\x00",
]


def _weights(*shape):
    scores = rng.gamma(0.3, size=shape)
    return scores / scores.sum(-1, keepdims=True)


def _written(tmp_path, report):
    text = write_report(tmp_path / "report.html", report).read_text("utf-8")
    embedded = re.search(r'<script type="application/json" id="report">(.*?)</script>', text, re.S)
    return text, json.loads(embedded[1])


def _unpacked(given, sequences):
    t, s = len(sequences[given["queries"]]), len(sequences[given["keys"]])
    steps = np.frombuffer(zlib.decompress(base64.b64decode(given["weights"])), np.uint8)
    shares = np.where(steps == 255, np.nan, steps / 254.0).reshape(-1, t, s)
    return shares * np.array(given["largest"])[:, None, None]


def test_weights_come_back_within_half_a_step_of_their_heads_largest(tmp_path):
    weights = _weights(3, 5, 7) * np.array([1, 0.01, 0])[:, None, None]
    example = Example(
        "a", [Map("layers.4.self_attention", weights, list("abcde"), list("abcdefg"))]
    )
    _, data = _written(tmp_path, Report("A", examples=[example]))
    (given,) = data["examples"][0]["maps"]
    assert (given["kind"], given["layer"]) == ("self-attention", "4")
    largest = weights.max((1, 2), keepdims=True)
    error = np.abs(_unpacked(given, data["sequences"]) - weights)
    assert (error <= largest / 508 + 1e-6 * largest).all()
    assert error.max() <= 1 / 255


def test_what_is_not_a_number_is_kept_apart_from_every_number():
    steps, largest = quantised([[[np.nan, 0.0, 0.2]], [[np.nan, np.nan, np.nan]]])
    assert steps.tolist() == [[[255, 0, 254]], [[255, 255, 255]]]
    assert largest.tolist() == [0.2, 0]


def test_a_page_is_one_file_that_asks_for_nothing(tmp_path):
    text, _ = _written(tmp_path, Report("A", examples=[Example("a", [_map(2)])]))
    assert "default-src 'none'" in text
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, which is never fetched
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!data:|#)", text)
    assert "${" not in text.partition("<script>")[0]


def _map(t, path="0.attention"):
    tokens = [f"token{i}" for i in range(t)]
    return Map(path, _weights(2, t, t), tokens, tokens)


def test_text_of_any_kind_is_data_and_never_markup(tmp_path):
    example = Example(HOSTILE[0], [Map("", _weights(1, 7, 7), HOSTILE, HOSTILE)])
    report = Report(
        HOSTILE[0],
        HOSTILE[1],
        [example],
        tables={HOSTILE[0]: [{HOSTILE[0]: HOSTILE[1]}]},
        config={HOSTILE[0]: {"a": HOSTILE[1]}},
    )
    text, data = _written(tmp_path, report)
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    assert "<!--" not in text
    assert data["title"] == HOSTILE[0]
    assert data["sequences"][0][:3] == HOSTILE[:3]
    assert data["sequences"][0][3:] == ["\\u2028", "$title", "${data}", "\\x00"]
    assert data["tables"][0]["rows"] == [[HOSTILE[1]]]


def test_equal_sequences_are_stored_once_and_layers_know_their_kind(tmp_path):
    maps = [_map(3, f"layers.{i}.self_attention") for i in range(3)]
    _, data = _written(tmp_path, Report("A", examples=[Example("a", maps)] * 2))
    assert len(data["sequences"]) == 1
    assert kind_and_layer("stages.1.blocks.0.attention") == ("stages blocks attention", "1.0")
    assert kind_and_layer("layers.0.self_attention (2)") == ("self-attention (2)", "0")


def test_verdicts_measures_and_curves_are_numbers_or_nothing(tmp_path):
    verdicts = [
        Verdict(CHECKS["uniform"], "0.attention", (1,), 0.99),
        Verdict(CHECKS["not finite"], "1.attention", (), math.nan, "in its keys"),
    ]
    metrics = [
        {"step": 1, "split": "train", "loss": 2.0},
        {"step": 2, "split": "train", "loss": math.nan, "note": "text"},
        {"step": 2, "split": "validation", "loss": 3, "skipped": None},
    ]
    measures = {"entropy": {"0.attention": [0.123456789, math.nan]}, "none of it": {}}
    _, data = _written(tmp_path, Report("A", verdicts=verdicts, metrics=metrics, measures=measures))
    found = {check["name"]: check["found"] for check in data["checks"]}
    assert list(found) == list(CHECKS)
    assert found["uniform"] == [{"path": "0.attention", "heads": [1], "value": 0.99, "note": ""}]
    assert found["not finite"][0]["value"] is None
    assert data["curves"] == [
        {
            "name": "loss",
            "lines": [
                {"split": "train", "points": [[1, 2.0]]},
                {"split": "validation", "points": [[2, 3]]},
            ],
        }
    ]
    (entropy,) = data["measures"]
    assert entropy["values"] == {"0.attention": [0.123457, None]}
    assert "nats" in entropy["meaning"]
    assert _written(tmp_path, Report("A"))[1]["checks"] is None


def test_an_image_is_in_the_file_and_each_token_has_its_cell(tmp_path):
    given = _map(5)._replace(cells=Cells(2, 2, [-1, 0, 1, 2, 3]))
    _, data = _written(tmp_path, Report("A", examples=[Example("a", [given], picture=b"\x89PNG")]))
    assert data["examples"][0]["picture"] == "data:image/png;base64,iVBORw=="
    assert data["examples"][0]["maps"][0]["cells"] == {
        **{"rows": 2, "columns": 2, "of": [-1, 0, 1, 2, 3]}
    }
    for of in ([0, 1, 2], [0, 1, 2, 3, 4]):
        with pytest.raises(ValueError, match="a cell below 4 for each of 5 queries"):
            _written(
                tmp_path,
                Report("A", examples=[Example("a", [given._replace(cells=Cells(2, 2, of))])]),
            )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (_weights(1, 2, 3), r"2 queries and 2 keys.*\(1, 2, 3\)"),
        (_weights(2, 2), r"h t s"),
        (np.zeros((0, 2, 2)), "at least one of each"),
        (-_weights(1, 2, 2), "from 0 up"),
        (_weights(1, 2, 2) * np.inf, "not infinite"),
    ],
)
def test_weights_that_cannot_be_shown_are_refused(tmp_path, weights, message):
    example = Example("a", [Map("0.attention", weights, ["a", "b"], ["a", "b"])])
    with pytest.raises(ValueError, match=message):
        write_report(tmp_path / "report.html", Report("A", examples=[example]))
    assert not list(tmp_path.iterdir())

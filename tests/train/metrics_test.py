import json
import math

import pytest

from attn_jax.train.metrics import Meter, Records


def step(loss, count, *, applied=True, norm=1.0):
    return {
        "sums": {"loss": loss, "count": count},
        "gradient_norm": norm,
        "learning_rate": 0.5,
        "applied": applied,
    }


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_is_over_tokens_not_over_steps():
    meter = Meter()
    meter.add(step(4.0, 1))
    meter.add(step(6.0, 9, norm=3.0))
    assert meter.take() == {
        "loss": 1.0,
        "gradient_norm": 2.0,
        "learning_rate": 0.5,
        "tokens": 10,
    }


def test_a_meter_goes_on_from_what_json_kept_of_it():
    whole, first = Meter(), Meter()
    for loss in (0.1, 0.2, 0.3):
        whole.add(step(loss, 3))
    first.add(step(0.1, 3))
    second = Meter(json.loads(json.dumps(first.contents)))
    second.add(step(0.2, 3))
    second.add(step(0.3, 3))
    assert second.take() == whole.take()


def test_steps_that_were_not_applied_are_counted_and_do_not_count():
    meter = Meter()
    meter.add(step(math.nan, 3, applied=False))
    assert meter.take() == {"skipped": 1}
    meter.add(step(2.0, 2))
    meter.add(step(math.nan, 3, applied=False))
    assert meter.take()["loss"] == 1.0


def test_going_on_cuts_what_came_after(tmp_path):
    records = Records(tmp_path)
    for number in (5, 10):
        records.write(number, "train", {"loss": 1.0})
        records.write(number, "validation", {"bleu": 2.0})
        records.time(number, {"tokens_per_second": 7.0})
    records.close()
    path, timing = tmp_path / "metrics.jsonl", tmp_path / "timing.jsonl"
    for half in (path, timing):
        with half.open("a") as file:
            file.write('{"step": 15, "split": "tr')  # killed while it wrote
    Records(tmp_path, step=10, evaluated=5).close()
    assert [(line["step"], line["split"]) for line in lines(path)] == [
        (5, "train"),
        (5, "validation"),
        (10, "train"),
    ]
    assert len(lines(timing)) == 2
    Records(tmp_path).close()
    assert lines(path) == []


def test_tensorboard_has_the_same_numbers(tmp_path):
    records = Records(tmp_path)
    records.write(5, "train", {"loss": 1.25})
    records.close()
    (events,) = tmp_path.glob("events.out.tfevents.*")
    content = events.read_bytes()
    assert b"train/loss" in content


def test_a_number_that_json_does_not_have_is_null(tmp_path):
    records = Records(tmp_path)
    records.write(5, "validation", {"loss": math.inf})
    records.close()
    assert lines(tmp_path / "metrics.jsonl") == [{"step": 5, "split": "validation", "loss": None}]


def test_a_full_disk_is_an_error_with_the_name_of_the_file(tmp_path):
    records = Records(tmp_path)
    records.close()
    records._metrics = open("/dev/full", "w")  # noqa: SIM115
    with pytest.raises(OSError, match=r"No space .*'/dev/full'"):
        records.write(1, "train", {"loss": 1.0})
    with pytest.raises(OSError, match=r"No space .*'/dev/full'"):
        records.close()

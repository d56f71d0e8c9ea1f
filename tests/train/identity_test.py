import dataclasses

import pytest

from attn_jax.train.identity import Mismatch, compare, differences

OLD = {"model": {"width": 128, "layers": [1, 2]}, "steps": 100}


def test_equal_configs_do_not_differ_nor_does_json_make_a_difference():
    assert differences(OLD, {"steps": 100, "model": {"layers": (1, 2), "width": 128}}) == []


def test_what_is_new_gone_or_none_is_a_difference():
    found = differences({"a": None, "b": 1}, {"b": 1, "c": None})
    assert [difference.name for difference in found] == ["a", "c"]


def test_free_fields_are_returned_and_others_refused_all_at_once():
    new = {"model": {"width": 64, "layers": [1]}, "steps": 200}
    assert [str(d) for d in compare(OLD, OLD | {"steps": 200}, free={"steps"})] == [
        "steps: 100 -> 200"
    ]
    with pytest.raises(Mismatch) as refusal:
        compare(OLD, new, free={"steps"})
    assert "model.layers: [1, 2] -> [1]\n  model.width: 128 -> 64" in str(refusal.value)
    assert "steps" not in str(refusal.value)


def test_a_free_name_frees_what_is_below_it_and_not_what_begins_like_it():
    assert compare({"model": {"a": 1}}, {"model": {"a": 2}}, free={"model"})
    with pytest.raises(Mismatch):
        compare({"models": 1}, {"models": 2}, free={"model"})


def test_dataclasses_are_compared_by_their_fields():
    @dataclasses.dataclass
    class Config:
        width: int

    assert [str(d) for d in differences(Config(1), Config(2))] == ["width: 1 -> 2"]


def test_a_field_that_did_not_exist_yet_had_its_default():
    defaults = {"model": {"width": 512, "bias": True}, "train": {"ema": 0.0}, "gone": 1}
    begun = {"model": {"width": 8}}
    now = {"model": {"width": 8, "bias": True}, "train": {"ema": 0.0}, "gone": 1}
    assert compare(begun, now, defaults=defaults) == []
    other = now | {"train": {"ema": 0.9}}
    assert [str(d) for d in compare(begun, other, defaults=defaults, free={"train"})] == [
        "train.ema: 0.0 -> 0.9"
    ]
    with pytest.raises(Mismatch, match=r"train\.ema: 0\.0 -> 0\.9"):
        compare(begun, other, defaults=defaults)
    with pytest.raises(Mismatch, match=r"model\.width: 8 -> 512"):  # which it did say
        compare(begun, defaults, defaults=defaults)

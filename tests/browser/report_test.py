"""The page in a browser: what it shows is what the arrays hold, by mouse, by keyboard, on any screen."""

import io
import re

import numpy as np
import pytest
from PIL import Image, ImageDraw

from attn_jax.diagnostics.report import Cells, Example, Map, Report, write_report
from attn_jax.diagnostics.verdicts import CHECKS, Verdict

pytestmark = pytest.mark.slow

LAYERS, HEADS = 3, 4
TEXT = "[CLS] the animal didn ' t cross the street because it was too tired [SEP]"
SENTENCE = TEXT.split()
HOSTILE = [
    *("<script>document.title='stolen'</script>", "<img src=x onerror=document.title='stolen'>"),
    *("&lt;", "</script>", "مرحبا", "猫", "\u200f", " ", "'\"`${1}`"),
]
WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 360, "height": 740}
rng = np.random.default_rng(0)


def weights(*shape):
    scores = rng.gamma(0.3, size=shape) + 1e-9
    return scores / scores.sum(-1, keepdims=True)


def maps(path, layers, tokens, keys=None, heads=HEADS):
    keys = tokens if keys is None else keys
    shape = heads, len(tokens), len(keys)
    return [Map(path.format(i), weights(*shape), tokens, keys) for i in range(layers)]


def image(size=32):
    buffer = io.BytesIO()
    drawn = Image.new("RGB", (size, size), "skyblue")
    ImageDraw.Draw(drawn).ellipse((8, 8, 24, 24), fill="orange")
    drawn.save(buffer, "PNG")
    return buffer.getvalue()


NUMBERS = maps("layers.{}.self_attention", LAYERS, SENTENCE)
TRANSLATION = [
    *maps("decoder.{}.cross_attention", 2, ["un", "chat", "</s>"], ["a", "cat", ".", "</s>"], 2),
    *maps("encoder.{}.self_attention", 2, ["a", "cat", ".", "</s>"], heads=2),
]
PATCHES = ["class", *(f"{y}, {x}" for y in range(4) for x in range(4))]
CELLS = Cells(4, 4, [-1, *range(16)])
WINDOW = Cells(4, 4, [5, 6, 9, -1])  # one token stands in the padding
BROKEN = weights(1, 2, 2)
BROKEN[0, 1, 0] = np.nan
REPORT = Report(
    "A report",
    "of a model",
    [
        Example("the animal", NUMBERS, focus=10),
        Example("<b>hostile</b>", maps("layers.{}.self_attention", 1, HOSTILE)),
        Example("a cat → un chat", TRANSLATION),
        Example(
            "an image",
            [
                *(x._replace(cells=CELLS) for x in maps("layers.{}.self_attention", 1, PATCHES)),
                *(x._replace(cells=WINDOW) for x in maps("layers.1.windows", 1, list("abcd"))),
            ],
            0,
            image(),
        ),
        Example("broken", [Map("layers.2.self_attention", BROKEN, ["a", "b"], ["a", "b"])]),
    ],
    measures={"entropy": {x.path: rng.random(HEADS) for x in NUMBERS}},
    verdicts=[
        Verdict(CHECKS["heads alike"], NUMBERS[1].path, (0, 2), 0.004),
        Verdict(CHECKS["not finite"], NUMBERS[2].path, (), np.nan, "in its keys"),
    ],
    metrics=[
        {"step": step, "split": split, "loss": 3 / step, "bleu": float(step)}
        for split in ("train", "validation")
        for step in range(1, 9)
    ],
    tables={"Samples": [{"source": "<i>x</i>", "translation": "long" * 40}]},
    config={"model": {"width": 128}},
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_report(tmp_path_factory.mktemp("page") / "report.html", REPORT)


@pytest.fixture
def opened(browser):
    """Opens a file, and in the end holds that it was quiet: no errors, and nothing asked for."""
    told, asked, contexts = [], [], []

    def go(path, viewport=WIDE, scheme="light"):
        contexts.append(browser.new_context(viewport=viewport, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-state=ready]")
        return page

    yield go
    for context in contexts:
        context.close()
    assert told == []
    assert all(url.startswith(("file:", "data:")) for url in asked), asked
    assert len([url for url in asked if url.startswith("file:")]) == len(contexts)


@pytest.fixture
def page(opened, path):
    return opened(path)


def head(page, layer, number):
    return page.locator("#heads tbody tr").nth(layer).locator("[role=gridcell]").nth(number)


def hover_cell(page, query, key):
    cell = page.evaluate(
        "getComputedStyle(document.querySelector('.frame')).getPropertyValue('--cell')"
    )
    side = float(cell.removesuffix("px"))
    page.locator("#map .body").hover(position={"x": (key + 0.5) * side, "y": (query + 0.5) * side})


def told(page):
    """The number that is shown of what is pointed at."""
    return float(page.locator("#readout output").text_content())


def near(shown, value):
    return abs(shown - value) <= 1 / 255


def test_the_number_shown_of_a_cell_is_that_of_the_array(page):
    for layer, number in ((0, 0), (2, 3)):
        head(page, layer, number).click()
        assert page.locator("#chosen").text_content().startswith(f"Layer {layer}, head {number}")
        for query, key in ((0, 0), (10, 2), (14, 14), (3, 11)):
            hover_cell(page, query, key)
            said = page.locator("#readout").text_content()
            assert said.startswith(f"{SENTENCE[query]} looks at {SENTENCE[key]} with ")
            assert near(told(page), NUMBERS[layer].weights[number, query, key])
            assert page.locator("#map .left .on").text_content() == SENTENCE[query]
            assert page.locator("#map .top .on").text_content() == SENTENCE[key]


def test_every_pixel_of_the_map_is_of_its_weight(page):
    found = np.array(
        page.evaluate(
            """() => {
            const canvas = document.querySelector("#map canvas");
            const {width, height} = canvas;
            return [...canvas.getContext("2d").getImageData(0, 0, width, height).data];
        }"""
        )
    ).reshape(len(SENTENCE), len(SENTENCE), 4)
    w = NUMBERS[0].weights[0]
    order = np.argsort(w, axis=None)
    lightness = (found[..., :3] @ [0.2126, 0.7152, 0.0722]).ravel()[order]
    assert (np.diff(lightness) < 2).all()  # darker, or within what rounds
    assert lightness[0] - lightness[-1] > 100


def test_the_sentence_opens_on_its_focus_and_ranks_what_it_looks_at(page):
    w = NUMBERS[0].weights[0, 10]
    assert page.locator("#readout").text_content() == "it looks at"
    shown = [float(x) for x in page.locator("#ranking output").all_text_contents()]
    assert len(shown) == 5
    np.testing.assert_allclose(shown, np.sort(w)[::-1][:5], atol=1 / 255)
    best = page.locator("#ranking bdi").first.text_content()
    assert best == SENTENCE[int(w.argmax())]


def test_a_token_shows_its_row_and_its_column(page):
    page.locator("#map .top span").nth(4).hover()
    assert page.locator("#readout").text_content() == "' is looked at by"
    shown = [float(x) for x in page.locator("#ranking output").all_text_contents()]
    np.testing.assert_allclose(shown, np.sort(NUMBERS[0].weights[0, :, 4])[::-1][:5], atol=1 / 255)
    page.locator("#lines .sides > :first-child span").nth(2).hover()
    assert page.locator("#readout").text_content() == "animal looks at"
    strong = page.locator("#lines .sides > :last-child span").nth(
        int(NUMBERS[0].weights[0, 2].argmax())
    )
    page.wait_for_function("x => x.style.background !== ''", arg=strong.element_handle())


def test_the_keyboard_reaches_and_moves_everything(page):
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "gridcell":
            break
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    assert page.locator("#heads [aria-selected=true]").get_attribute("data-head") == "2"
    assert page.evaluate("document.activeElement.dataset.path") == NUMBERS[1].path
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.id") != "map":
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert near(told(page), NUMBERS[1].weights[2, 10, 0])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    assert near(told(page), NUMBERS[1].weights[2, 11, 14])
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    assert near(told(page), NUMBERS[1].weights[2, 14, 14])
    page.keyboard.press("Escape")
    assert page.locator("#readout").text_content().startswith("Point at a token")


def test_a_kept_query_stays_when_the_pointer_leaves(page):
    page.locator("#map .left span").nth(5).click()
    page.mouse.move(5, 5)
    assert page.locator("#readout").text_content() == "t looks at"
    head(page, 1, 1).click()
    assert page.locator("#readout").text_content() == "t looks at"


def test_tokens_and_titles_are_text_whatever_they_look_like(page):
    page.select_option("#example", "1")
    page.wait_for_function("() => document.querySelectorAll('#map .left span').length === 9")
    shown = page.locator("#map .left span").all_text_contents()
    assert shown == [*HOSTILE[:6], "\\u200f", "␣ ", HOSTILE[8]]
    assert page.locator("#lines .sides > :last-child span").all_text_contents() == shown
    hover_cell(page, 0, 1)
    assert (
        page.locator("#readout")
        .text_content()
        .startswith(f"{HOSTILE[0]} looks at {HOSTILE[1]} with")
    )
    assert page.locator("main script, main img:not(#picture img), main b script").count() == 0
    assert page.title() == "A report"
    assert page.locator("#sentence").text_content() == "<b>hostile</b>"
    assert page.locator("#tables td").first.text_content() == "<i>x</i>"


def test_layers_of_every_kind_can_be_chosen(page):
    page.select_option("#example", "2")
    kinds = page.locator("#kinds button")
    page.wait_for_function("() => document.querySelectorAll('#kinds button').length === 2")
    assert kinds.all_text_contents() == ["decoder cross-attention", "encoder self-attention"]
    head(page, 1, 1).click()
    hover_cell(page, 1, 3)
    assert near(told(page), TRANSLATION[1].weights[1, 1, 3])
    kinds.nth(1).click()
    assert kinds.nth(1).get_attribute("aria-pressed") == "true"
    hover_cell(page, 3, 2)
    assert near(told(page), TRANSLATION[2].weights[1, 3, 2])


def test_an_image_lies_under_its_map(page):
    page.select_option("#example", "3")
    page.wait_for_selector("#picture-figure:not([hidden])")
    assert page.locator("#lines-figure").is_hidden()
    box = page.locator("#picture").bounding_box()
    page.locator("#picture").hover(position={"x": box["width"] * 0.6, "y": box["height"] * 0.9})
    assert page.locator("#readout").text_content() == "3, 2 looks at"
    width, height, alphas = page.evaluate(
        """() => {
        const canvas = document.querySelector("#picture canvas");
        const {width, height} = canvas;
        const {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
        return [width, height, [...data].filter((_, i) => i % 4 === 3)];
    }"""
    )
    assert (width, height) == (4, 4)
    w = REPORT.examples[3].maps[0].weights[0, 1 + 3 * 4 + 2, 1:]
    assert int(np.argmin(alphas)) == int(w.argmax())


def test_a_window_is_bright_where_it_is_on_the_image_alone(page):
    page.select_option("#example", "3")
    page.locator("#kinds button").nth(1).click()
    box = page.locator("#picture").bounding_box()
    page.locator("#picture").hover(position={"x": box["width"] * 0.4, "y": box["height"] * 0.6})
    assert page.locator("#readout").text_content() == "c looks at"
    alphas = page.evaluate(
        """() => {
        const canvas = document.querySelector("#picture canvas");
        const {data} = canvas.getContext("2d").getImageData(0, 0, 4, 4);
        return [...data].filter((_, i) => i % 4 === 3);
    }"""
    )
    inside = REPORT.examples[3].maps[1].weights[0, 2, :3]
    assert [5, 6, 9][int(inside.argmax())] == int(np.argmin(alphas))
    assert {alphas[i] for i in range(16) if i not in (5, 6, 9)} == {225}
    page.locator("#picture").hover(position={"x": box["width"] * 0.9, "y": box["height"] * 0.9})
    assert page.locator("#readout").text_content() == "a looks at"  # no token is there


def test_what_is_not_a_number_says_so(page):
    page.select_option("#example", "4")
    page.wait_for_function("() => document.querySelectorAll('#map .left span').length === 2")
    hover_cell(page, 1, 0)
    assert page.locator("#readout output").text_content() == "not a number"
    assert "not finite" in page.locator("#chosen").text_content()
    hover_cell(page, 0, 1)
    assert near(told(page), BROKEN[0, 0, 1])


def test_verdicts_say_why_and_lead_to_their_heads(page):
    badges = page.locator("#checks summary .badge").all_text_contents()
    assert badges == ["not finite", "heads alike"]
    assert page.locator(".passed .badge").count() == len(CHECKS) - 2
    alike = page.locator("#checks details").nth(1)
    alike.locator("summary").click()
    said = alike.text_content().lower()
    assert CHECKS["heads alike"].reason in said
    assert CHECKS["heads alike"].remedy in said
    alike.locator("button").click()
    assert page.locator("#chosen").text_content() == "Layer 1, head 0 heads alike"
    assert page.locator("#heads .flagged").count() == 2 + HEADS


def test_measures_are_numbers_of_heads(page):
    page.select_option("#measure", "entropy")
    shown = page.locator("#heads [role=gridcell]").all_text_contents()
    numbers = np.concatenate([REPORT.measures["entropy"][x.path] for x in NUMBERS])
    np.testing.assert_allclose([float(x.replace("<", "")) for x in shown], numbers, atol=0.0051)
    assert "nats" in page.locator("#meaning").text_content()


def test_curves_tell_their_values_under_the_pointer(page):
    figures = page.locator("#curves figure")
    assert figures.locator("b").all_text_contents() == ["loss", "bleu"]
    plot = figures.first.locator("svg")
    assert "train 0.375" in figures.first.locator(".told").text_content()
    box = plot.bounding_box()
    plot.hover(position={"x": box["width"] * (6 + 288 / 7) / 300, "y": 20})
    assert re.search(
        r"step 2 train 1\.5 validation 1\.5", figures.first.locator(".told").text_content()
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_scrolls_in_one_direction_only(opened, path, scheme):
    page = opened(path, NARROW, scheme)
    for example in ("0", "1", "2", "3"):
        page.select_option("#example", example)
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    page.select_option("#example", "0")
    head(page, 0, 1).click()
    page.locator("#map").scroll_into_view_if_needed()
    hover_cell(page, 2, 3)
    assert near(told(page), NUMBERS[0].weights[1, 2, 3])


def test_light_and_dark_are_two_grounds_and_writing_is_read_on_both(opened, path):
    grounds = []
    for scheme in ("light", "dark"):
        page = opened(path, scheme=scheme)
        ground, ink = (
            [
                int(x)
                for x in re.findall(r"\d+", page.evaluate(f"getComputedStyle(document.body).{x}"))[
                    :3
                ]
            ]
            for x in ("backgroundColor", "color")
        )
        light, dark = sorted(map(_luminance, (ground, ink)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 7
        grounds.append(_luminance(ground))
    assert grounds[0] > 0.8
    assert grounds[1] < 0.05


def _luminance(rgb):
    linear = [
        x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in np.array(rgb) / 255
    ]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_colours_of_weights_grow_evenly(opened, path):
    for scheme in ("light", "dark"):
        page = opened(path, scheme=scheme)
        page.select_option("#scale", "1")
        stops = re.findall(
            r"rgb\((\d+), (\d+), (\d+)\)", page.locator("#legend i").get_attribute("style")
        )
        y = np.array([_luminance([int(x) for x in stop]) for stop in stops])
        lightness = 116 * np.cbrt(y) - 16  # of CIE L*a*b*
        steps = np.diff(lightness) * (1 if scheme == "dark" else -1)
        assert len(stops) == 17
        assert (steps > 0).all()
        assert steps.max() < 2 * steps.mean()


def test_twelve_layers_of_twelve_heads_of_128_tokens_are_small_and_smooth(opened, tmp_path):
    tokens = [f"token{i}" for i in range(128)]
    many = [
        Map(f"layers.{i}.self_attention", weights(12, 128, 128), tokens, tokens) for i in range(12)
    ]
    path = write_report(tmp_path / "large.html", Report("Large", examples=[Example("128", many)]))
    assert path.stat().st_size < 5e6
    page = opened(path)
    head(page, 11, 7).click()
    page.locator("#map").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert near(told(page), many[11].weights[7, 0, 2])
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDE["width"]
    took = page.evaluate(
        """() => {
        const body = document.querySelector("#map .body");
        const box = body.querySelector("canvas").getBoundingClientRect();
        const began = performance.now();
        for (let i = 0; i < 100; i++) {
            const [clientX, clientY] = [box.left + 5 + 12 * i, box.top + 5 + 12 * i];
            body.dispatchEvent(new PointerEvent("pointermove", {clientX, clientY, bubbles: true}));
        }
        return (performance.now() - began) / 100;
    }"""
    )
    assert took < 16  # ms: a frame

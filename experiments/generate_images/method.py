"""Image GPT: the shades of an image said one after the other, row by row, each given those before.

With dense attention a pixel sees all before it; with strided attention the last row's worth of them,
and every one above it. What a model knows of images is how few bits they take.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from attn_jax.data.images import Images, LabelledImages
from attn_jax.decode import Sample, Specials, pick
from attn_jax.decode.cache import Continuation
from attn_jax.models.image_gpt import ImageGPT
from attn_jax.train import adamw, cosine
from experiments.descent import descend
from experiments.generate_images.baselines import histogram_bits
from experiments.generate_images.config import Config, rule
from experiments.results import Row

BATCH = 128  # images that are judged at once


class Learned(NamedTuple):
    """A model, and the parameters that each seed has come to, stacked."""

    graph: Any
    params: Any
    rest: Any

    def model(self, params: Any) -> ImageGPT:
        """The model with the parameters of one seed."""
        return nnx.merge(self.graph, params, self.rest)

    def of(self, seed: int) -> Any:
        """The parameters of a seed, by its place in the config."""
        return jax.tree.map(lambda x: x[seed], self.params)

    @property
    def parameters(self) -> int:
        """How many a model has."""
        return sum(x.size for x in jax.tree.leaves(self.of(0)))


def shades(images: Images, colours: int) -> np.ndarray:
    """Each channel of each pixel as one of so many shades, row by row: `n t` int32."""
    return np.rint(images.scaled * (colours - 1)).astype(np.int32).reshape(images.number, -1)


def pictures(tokens: np.ndarray, shape: tuple[int, ...], colours: int) -> np.ndarray:
    """Shades `n t` as images `n y x c`, from 0 to 1."""
    return np.asarray(tokens).reshape(-1, *shape).astype(np.float32) / (colours - 1)


def row_length(shape: tuple[int, ...]) -> int:
    """Shades from a pixel to the one below it: the stride of strided attention."""
    return shape[1] * shape[2]


def learn(pattern: str, config: Config, images: Images) -> Learned:
    """Trains a model with a pattern of attention, for all seeds at once."""
    tokens, shape = shades(images, config.model.colours), images.pixels.shape[1:]
    make = functools.partial(_split, config, pattern, tokens.shape[1], row_length(shape))
    graph, _, rest = make(0)
    train = functools.partial(_train, config, make, graph, rest)
    params = jax.jit(jax.vmap(train, (0, None)))(np.array(config.seeds), tokens)
    return Learned(graph, params, rest)


def _split(config: Config, pattern: str, pixels: int, stride: int, seed: Any) -> Any:
    sizes, rngs = config.model.sizes(pixels), nnx.Rngs(jax.random.key(seed))
    model = ImageGPT(sizes, rule=rule(pattern, stride), rngs=rngs)
    return nnx.split(model, nnx.Param, ...)


def _train(config: Config, make: Any, graph: Any, rest: Any, seed: Any, tokens: Any) -> Any:
    section, rng = config.train, jax.random.key(seed)
    schedule = cosine(section.rate, section.steps // 10, section.steps)
    optimizer = adamw(schedule, decay=section.decay)

    def loss(params: Any, number: jax.Array) -> jax.Array:
        chosen, noise = jax.random.split(jax.random.fold_in(rng, number))
        rows = tokens[jax.random.randint(chosen, (section.rows,), 0, len(tokens))]
        return losses(nnx.merge(graph, params, rest), rows, noise).mean()

    return descend(loss, make(seed)[1], optimizer, section.steps, lambda params, number: ())[0]


def losses(model: ImageGPT, tokens: jax.Array, rng: Any = None) -> jax.Array:
    """Of each shade given those before it, in nats: `b t`."""
    logits = model(model.started(tokens), rng=rng)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens)


def bits(learned: Learned, tokens: np.ndarray) -> np.ndarray:
    """What each place takes on average, `seeds t`."""

    @jax.jit
    @jax.vmap
    def of_seed(params: Any) -> jax.Array:
        model = learned.model(params)
        each = jax.lax.map(lambda x: losses(model, x[None])[0], tokens, batch_size=BATCH)
        return each.mean(0) / np.log(2)

    return np.asarray(of_seed(learned.params))


def draw_on(
    learned: Learned, config: Config, begun: np.ndarray, length: int, seed: int = 0
) -> np.ndarray:
    """Images `b t` that begin with given shades, `b` of 0 or more, and are gone on with by drawing.

    Args:
      learned: whose model of the first seed draws.
      config: what it is drawn with.
      begun: `b s`.
      length: t, of a whole image.
      seed: of the draws.
    """
    options, start = Sample(config.temperature), config.model.colours
    specials = Specials(pad=start, bos=start, eos=start)  # which no logit is for
    prompt = np.pad(begun, [(0, 0), (1, 0)], constant_values=start)
    rngs = jax.random.split(jax.random.key(seed), len(begun))
    missing = length - begun.shape[1]

    @jax.jit
    def run(params: Any, prompt: jax.Array) -> jax.Array:
        model = learned.model(params)
        cache = Continuation.start(model, prompt, beams=1, length=missing)

        def step(carry: Any, t: jax.Array) -> tuple[Any, jax.Array]:
            last, cache = carry
            logits, cache = model.step(last, cache)
            last = pick(logits, t, options, rngs, specials=specials)
            return (last, cache), last[:, 0]

        return jax.lax.scan(step, (prompt[:, -1:], cache), jnp.arange(missing))[1].T

    return np.concatenate([begun, run(learned.of(0), prompt)], 1)


def nearest(tokens: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which of some known images is nearest to each image: `n`, by squared distance."""
    x, y = tokens.astype(np.float64), known.astype(np.float64)
    return (np.square(y).sum(-1) - 2 * x @ y.T).argmin(-1)


def compare(
    config: Config, images: LabelledImages
) -> tuple[list[Row], dict[str, Learned], dict[str, np.ndarray]]:
    """Bits per shade of the images that are held out; the models, and what each place takes them."""
    colours = config.model.colours
    train, test = (shades(part, colours) for part in (images.train, images.test))
    t, shape = test.shape[1], images.train.pixels.shape[1:]
    known = {
        "all shades alike": np.log2(colours),
        "histogram of each place": histogram_bits(train, test, colours),
        "histogram given the last": histogram_bits(train, test, colours, given_last=True),
    }
    rows: list[Row] = [
        {"what knows the images": name, "parameters": None, "pairs": None, "bits": float(b),
         "least": None, "most": None}
        for name, b in known.items()
    ]  # fmt: skip
    models, places = {}, {}
    for pattern in config.patterns:
        models[pattern] = learn(pattern, config, images.train)
        by_place = bits(models[pattern], test)
        places[pattern] = by_place.mean(0)
        each = by_place.mean(1)
        mask = rule(pattern, row_length(shape)).mask & rule("dense", 1).mask
        rows.append(
            {
                "what knows the images": f"Image GPT, {pattern}",
                "parameters": models[pattern].parameters,
                "pairs": int(np.asarray(mask.dense(t, t)).sum()),
                "bits": float(each.mean()),
                "least": float(each.min()),
                "most": float(each.max()),
            }
        )
    return rows, models, places


def complete(
    config: Config, images: LabelledImages, models: dict[str, Learned]
) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Upper halves gone on with: what the whole is taken for, and the whole images `n t`, by pattern.

    An image is taken for what the nearest image that was learned from shows.
    """
    colours, labels = config.model.colours, images.train.labels
    train, test = (shades(part, colours) for part in (images.train, images.test))
    half = test.shape[1] // 2
    wholes = {
        pattern: draw_on(x, config, test[:, :half], test.shape[1]) for pattern, x in models.items()
    }
    beside = train[nearest(test[:, :half], train[:, :half]), half:]
    shown = {
        "as it was": test,
        **{f"Image GPT, {pattern}": whole for pattern, whole in wholes.items()},
        "from the image whose upper half is nearest": np.concatenate([test[:, :half], beside], 1),
        "white": np.pad(test[:, :half], [(0, 0), (0, half)]),
    }
    rows: list[Row] = [
        {
            "lower half": name,
            "taken for what it was": float(
                (labels[nearest(x, train)] == images.test.labels).mean()
            ),
        }
        for name, x in shown.items()
    ]
    return rows, wholes

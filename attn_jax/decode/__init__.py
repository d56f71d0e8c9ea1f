"""Decoding: caches, search and scores."""

from attn_jax.decode.generate import generate as generate
from attn_jax.decode.sampling import pick as pick
from attn_jax.decode.score import Scores as Scores
from attn_jax.decode.score import score as score
from attn_jax.decode.search import Beam as Beam
from attn_jax.decode.search import Hypotheses as Hypotheses
from attn_jax.decode.search import Sample as Sample
from attn_jax.decode.search import Specials as Specials
from attn_jax.decode.search import beam as beam
from attn_jax.decode.search import greedy as greedy
from attn_jax.decode.search import sample as sample

"""Property tests draw the same examples everywhere, unless HYPOTHESIS_PROFILE=explore."""

import os

import jax
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fixed",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("explore", settings.get_profile("fixed"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture
def x64():
    """Float64 where it is asked for, for the duration of a test."""
    with jax.enable_x64(True):
        yield

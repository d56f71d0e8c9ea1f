import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

from attn_jax.train.compilation import enable_compilation_cache


@pytest.fixture
def settings():
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_it_lives_below_the_users_cache_and_is_theirs_alone(tmp_path, monkeypatch, settings):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directory = enable_compilation_cache()
    assert directory.is_relative_to(tmp_path / "attn_jax" / "xla")
    assert directory.stat().st_mode & 0o077 == 0
    assert jax.config.jax_compilation_cache_dir == str(directory)
    assert enable_compilation_cache() == directory


def test_what_took_long_to_compile_is_compiled_once(tmp_path, settings):
    directory = enable_compilation_cache(tmp_path)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()
    hits = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
    for _ in range(2):
        jax.jit(lambda x: jnp.sin(x) * 3.25)(jnp.ones(7))
    assert any(directory.iterdir())
    assert "/jax/compilation_cache/cache_hits" in hits

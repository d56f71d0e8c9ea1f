import jax
import pytest

from attn_jax.train.compilation import enable_compilation_cache


@pytest.fixture
def settings():
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_it_lives_below_the_users_cache_and_is_theirs_alone(tmp_path, monkeypatch, settings):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directory = enable_compilation_cache()
    assert directory.is_relative_to(tmp_path / "attn_jax" / "xla")
    assert directory.stat().st_mode & 0o077 == 0
    assert jax.config.jax_compilation_cache_dir == str(directory)
    assert enable_compilation_cache() == directory

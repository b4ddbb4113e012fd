"""A decode loop over keys and values on the device."""
import numpy as np
import pytest

import vkattn


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float16", 4e-3), ("q8_0", 4e-2)])
def test_decode_loop(random, dtype, tolerance):
    """A prompt of five tokens and three steps: the rows of causal attention over all of them."""
    query, key, value = (random.standard_normal((2, heads, 8, 32)).astype(np.float32) for heads in (4, 2, 2))
    expected, expected_lse = vkattn.attention(query, key, value, is_causal=True, enable_gqa=True, return_lse=True)
    cache = vkattn.Cache(2, 2, 8, 32, dtype=dtype)
    for rows in (slice(0, 5), slice(5, 6), slice(6, 7), slice(7, 8)):
        cache.append(key[:, :, rows], value[:, :, rows])
        assert len(cache) == rows.stop
        output, lse = cache.attention(query[:, :, rows], return_lse=True)
        np.testing.assert_allclose(output, expected[:, :, rows], atol=tolerance)
        np.testing.assert_allclose(lse, expected_lse[:, :, rows], atol=tolerance)
    with pytest.raises(ValueError, match="holds 8 keys and has room for 8; 1 more do not fit"):
        cache.append(key[:, :, :1], value[:, :, :1])
    cache.clear()
    assert len(cache) == 0 and not cache.attention(query[:, :, :1]).any()
    cache.append(key[:, :, :5], value[:, :, :5])
    np.testing.assert_allclose(cache.attention(query[:, :, :5]), expected[:, :, :5], atol=tolerance)


def test_options_and_types(random):
    query, key = (random.standard_normal((1, 2, 6, 16)).astype(np.float16) for _ in range(2))
    value = random.standard_normal((1, 2, 6, 24)).astype(np.float16)
    cache = vkattn.Cache(1, 2, 10, 16, 24, dtype=np.float16)
    cache.append(key[:, :, ::-1], value[:, :, ::-1])
    output = cache.attention(query, is_causal=False, window=(2, 1), softcap=3.0, scale=0.2)
    expected = vkattn.attention(query, key[:, :, ::-1], value[:, :, ::-1], window=(2, 1), softcap=3.0, scale=0.2)
    assert output.dtype == np.float16
    np.testing.assert_allclose(output.astype(float), expected.astype(float), atol=4e-3)


def test_refusals():
    cache = vkattn.Cache(1, 2, 4, 16)
    array = np.zeros((1, 2, 1, 16), np.float32)
    with pytest.raises(ValueError, match=r"key has the shape .* but must be \(1, 2, new_length, 16\)"):
        cache.append(array[..., :8], array)
    with pytest.raises(ValueError, match="key and value differ in length: 1 and 0"):
        cache.append(array, array[:, :, :0])
    with pytest.raises(ValueError, match="query has the shape"):
        cache.attention(array[0])
    with pytest.raises(ValueError, match="query_heads is 3"):
        cache.attention(np.zeros((1, 3, 1, 16), np.float32))
    with pytest.raises(ValueError, match="a cache stores f32"):
        vkattn.Cache(1, 2, 4, 16, dtype="int8")
    with pytest.raises(ValueError, match="blocks of 32"):
        vkattn.Cache(1, 2, 4, 16, dtype="q8_0")
    assert len(cache) == 0
    cache.append(array[:, :, :0], array[:, :, :0])
    assert len(cache) == 0

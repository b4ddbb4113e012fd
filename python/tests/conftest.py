import os

import numpy as np
import pytest

import vkattn
from vkattn import _native

if os.environ.get("VKATTN_VALIDATION") == "1":
    # The loader and the layer read these when the first device is opened.
    os.environ.setdefault("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
    os.environ.setdefault("VK_LAYER_ENABLES", "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT")


@pytest.fixture(autouse=True)
def no_validation_messages():
    """A message of the validation layer fails the test."""
    yield
    if os.environ.get("VKATTN_VALIDATION") == "1":
        assert _native.open("").validation_messages() == []


def pytest_sessionstart(session):
    if os.environ.get("VKATTN_TEST_REQUIRE_DEVICE") == "1" or _has_device():
        return
    pytest.exit("skipped: no Vulkan device", returncode=77)  # CTest shows 77 as skipped


def _has_device():
    try:
        return any(not device.rejected for device in vkattn.devices())
    except vkattn.Error:
        return False


@pytest.fixture
def random():
    return np.random.default_rng(7)


@pytest.fixture
def qkv(random):
    """Makes query, key and value: qkv(batch, query_heads, kv_heads, query_length, kv_length, head_dim)."""

    def make(batch=1, query_heads=2, kv_heads=2, queries=9, keys=13, dim=16, value_dim=None, dtype=np.float32):
        shapes = ((batch, query_heads, queries, dim), (batch, kv_heads, keys, dim),
                  (batch, kv_heads, keys, value_dim or dim))
        return tuple(random.standard_normal(shape).astype(dtype) for shape in shapes)

    return make

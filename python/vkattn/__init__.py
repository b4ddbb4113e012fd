"""Attention on any Vulkan device.

    attention            softmax(scale * query @ key^T + mask) @ value, on NumPy and DLPack arrays
    attention_backward   its gradients
    plan, array          attention on arrays that stay on the device
    Cache                keys and values on the device, for decoding
    Rotary               rotary position embedding, for Cache and MultiHeadAttention
    MultiHeadAttention   a layer: projections, attention, gradients, decoding
    show                 a picture of weights, drawn by matplotlib
    devices              the Vulkan devices of this machine
    torch                a module to import: vkattn as PyTorch's attention
    Error                the exception that the package raises

It needs a Vulkan driver: a GPU's, or Mesa's lavapipe for the CPU.
"""
import atexit as _atexit
import time as _time

from . import _native

from ._attention import attention
from ._backward import Gradients, attention_backward
from ._cache import Cache
from ._device_arrays import Array, array
from ._devices import Device, devices
from ._errors import Error, RuleError
from ._multi_head_attention import LayerGradients, MultiHeadAttention, SavedCall
from ._native import __version__
from ._plan import Plan, plan
from ._rotary import Rotary
from ._show import show

__all__ = [
    "Array", "Cache", "Device", "Error", "Gradients", "LayerGradients", "MultiHeadAttention", "Plan",
    "Rotary", "RuleError", "SavedCall", "array", "attention", "attention_backward", "devices", "plan", "show",
]


@_atexit.register
def _close():
    """Lets no daemon thread begin a call, waits for the others, and closes devices, which saves their caches."""
    _native.end_calls()
    while _native.calls_in_flight():
        _time.sleep(0.002)
    _native.close_all()

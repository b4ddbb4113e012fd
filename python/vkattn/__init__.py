"""Attention on any Vulkan device.

    attention   softmax(scale * query @ key^T + mask) @ value on NumPy and DLPack arrays
    attention_backward   its gradients
    devices     the Vulkan devices of this machine
    Error       what the package raises

It needs a Vulkan driver: that of a GPU, or Mesa's lavapipe for the CPU.
"""
import atexit as _atexit

from ._attention import attention
from ._backward import Gradients, attention_backward
from ._errors import Error, RuleError
from ._native import Device, __version__, devices
from ._native import close_all as _close_all

__all__ = ["Device", "Error", "Gradients", "RuleError", "attention", "attention_backward", "devices"]

# Devices write what their drivers compiled to the cache on disk as they are closed.
_atexit.register(_close_all)

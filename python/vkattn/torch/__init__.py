"""vkattn as PyTorch's attention, with gradients, for tensors in host memory.

    attention                      vkattn.attention on tensors
    varlen_attention               the same on packed sequences, as FlashAttention lays them out
    scaled_dot_product_attention   the signature of torch.nn.functional.scaled_dot_product_attention
    install, uninstall             models call vkattn's functions in place of PyTorch's
    replaces_sdpa                  a context in which they do
    from_numpy                     tensors of what vkattn returns, bfloat16 too
    calls, verbose                 who computed the calls, and why

VKATTN_DEVICE names the device; otherwise it is the best one.
"""
import torch as _torch

if tuple(int(number) for number in _torch.__version__.split(".")[:2]) < (2, 5):
    raise ImportError(f"vkattn.torch needs PyTorch 2.5 or later, which has enable_gqa; this is {_torch.__version__}")

from ._attention import attention, scaled_dot_product_attention, varlen_attention
from ._calls import calls, verbose
from ._convert import from_numpy
from ._install import install, replaces_sdpa, uninstall

__all__ = [
    "attention", "calls", "from_numpy", "install", "replaces_sdpa", "scaled_dot_product_attention", "uninstall",
    "varlen_attention", "verbose",
]

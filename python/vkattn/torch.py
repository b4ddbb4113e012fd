"""PyTorch's attention by vkattn, with gradients, for tensors in host memory.

    scaled_dot_product_attention   the signature of torch.nn.functional.scaled_dot_product_attention
    replaces_sdpa                  a context in which models that call PyTorch's get vkattn's

The device is the one that VKATTN_DEVICE names, or the best.
"""
import contextlib
import warnings

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from . import _arrays
from ._attention import attention
from ._backward import attention_backward
from ._errors import Error

if tuple(int(number) for number in torch.__version__.split(".")[:2]) < (2, 5):
    raise ImportError(f"vkattn.torch needs PyTorch 2.5 or later, which has enable_gqa; this is {torch.__version__}")

__all__ = ["replaces_sdpa", "scaled_dot_product_attention"]

_pytorch = torch.nn.functional.scaled_dot_product_attention
_TYPES = (torch.float32, torch.float16, torch.bfloat16)
# Errors before anything is computed, which PyTorch may not have.
_REFUSALS = ("invalid_argument", "unsupported", "limit_exceeded")
_said = set()


def _say_once(reason):
    if reason in _said:
        return
    _said.add(reason)
    warnings.warn(f"PyTorch computes this attention, not vkattn: {reason}", stacklevel=3)


def _numpy(tensor):
    """A NumPy array of the tensor's memory."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(_arrays.BFLOAT16_BITS)
    return tensor.numpy()


def _tensor(array):
    if array.dtype == _arrays.BFLOAT16_BITS:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _reason_against(query, key, value, mask, is_causal):
    """Why PyTorch is left to do it; None where vkattn can. What is no valid call is PyTorch's to refuse."""
    given = [query, key, value] + ([] if mask is None else [mask])
    if torch.compiler.is_compiling():
        return "it is being compiled"
    if any(type(x) not in (torch.Tensor, torch.nn.Parameter) or x.layout != torch.strided for x in given):
        return "there are tensors of a class or layout of their own"
    if any(x.device.type != "cpu" for x in given):
        return "there are tensors on another device than the CPU"
    if torch._C._functorch.maybe_current_level() is not None:
        return "it is transformed by torch.func"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    if query.dtype not in _TYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        return "query, key and value are not all float32, float16 or bfloat16"
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        return "the mask is neither bool nor of floating point"
    if mask is not None and is_causal:
        return "there are both a mask and is_causal"
    return None


class _Attention(torch.autograd.Function):
    """vkattn.attention and vkattn.attention_backward as one differentiable function."""

    @staticmethod
    def forward(ctx, query, key, value, mask, keywords):
        arrays = [None if x is None else _numpy(x) for x in (query, key, value, mask)]
        output, lse = (_tensor(x) for x in attention(*arrays, return_lse=True, **keywords))
        ctx.save_for_backward(query, key, value, mask, output, lse)
        ctx.keywords = keywords
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        query, key, value, mask, output, lse = (None if x is None else _numpy(x) for x in ctx.saved_tensors)
        names = ("query", "key", "value", "mask")
        wanted = tuple(name for name, needed in zip(names, ctx.needs_input_grad) if needed)
        found = attention_backward(_numpy(grad_output), query, key, value, output, lse, mask, gradients=wanted,
                                   **ctx.keywords)
        return (*(None if getattr(found, name) is None else _tensor(getattr(found, name)) for name in names), None)


def _attend(query, key, value, mask, keywords):
    given = (query, key, value, mask)
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given):
        return _Attention.apply(*given, keywords)
    return _tensor(attention(*(None if x is None else _numpy(x) for x in given), **keywords))


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention on a Vulkan device, differentiable once.

    query (..., Hq, L, E), key (..., H, S, E), value (..., H, S, Ev), attn_mask broadcasts to (..., Hq, L, S): bool,
    True takes part, or of floating point, added. Tensors of float32, float16 or bfloat16 in host memory; they and
    the results are copied to and from the device. Sums are float32. Returns (..., Hq, L, Ev).

    Dropout draws bits of its own, by a seed that torch.manual_seed decides. A row that sees no key is 0.

    What vkattn does not take (other types and devices, tensor subclasses, torch.compile, torch.func, autocast, heads
    above 576, …) PyTorch computes; a warning says so once for each reason.
    """
    reason = _reason_against(query, key, value, attn_mask, is_causal)
    if reason is None:
        mask = attn_mask.float() if attn_mask is not None and attn_mask.dtype == torch.bfloat16 else attn_mask
        seed = int(torch.randint(2**63 - 1, (), device="cpu")) if dropout_p else 0
        keywords = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa, "dropout": dropout_p,
                    "seed": seed}
        try:
            return _attend(query, key, value, mask, keywords)
        except Error as e:
            if e.code not in _REFUSALS:
                raise
            reason = str(e)
    _say_once(reason)
    return _pytorch(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


@contextlib.contextmanager
def replaces_sdpa():
    """Within it torch.nn.functional.scaled_dot_product_attention is vkattn's, in all threads.

    So torch.nn.MultiheadAttention and models that call it by that name attend on the Vulkan device. Those that
    imported the function itself keep PyTorch's, and so does the fast path of torch.nn.TransformerEncoderLayer
    without gradients, which calls neither.

        with vkattn.torch.replaces_sdpa():
            loss = model(batch).loss
            loss.backward()
    """
    before = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = scaled_dot_product_attention
    try:
        yield
    finally:
        torch.nn.functional.scaled_dot_product_attention = before

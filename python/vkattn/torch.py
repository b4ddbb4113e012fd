"""vkattn as PyTorch's attention, with gradients, for tensors in host memory.

    scaled_dot_product_attention   the signature of torch.nn.functional.scaled_dot_product_attention
    replaces_sdpa                  a context in which models call vkattn's function in place of PyTorch's

VKATTN_DEVICE names the device; otherwise it is the best one.
"""
import contextlib
import warnings

import numpy as np
import torch
from torch.autograd import forward_ad

from . import _arrays
from ._attention import attention
from ._backward import attention_backward
from ._errors import Error

if tuple(int(number) for number in torch.__version__.split(".")[:2]) < (2, 5):
    raise ImportError(f"vkattn.torch needs PyTorch 2.5 or later, which has enable_gqa; this is {torch.__version__}")

__all__ = ["replaces_sdpa", "scaled_dot_product_attention"]

_pytorch = torch.nn.functional.scaled_dot_product_attention
_TYPES = (torch.float32, torch.float16, torch.bfloat16)
# Errors that come before anything is computed, and that PyTorch's attention may not have.
_REFUSALS = ("invalid_argument", "unsupported", "limit_exceeded")
_said = set()


def _say_once(reason):
    if reason in _said:
        return
    _said.add(reason)
    warnings.warn(f"PyTorch computes this attention, not vkattn: {reason}", stacklevel=3)


def _numpy(tensor):
    """A NumPy array that shares the tensor's memory."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(_arrays.BFLOAT16_BITS)
    return tensor.numpy()


def _tensor(array):
    if array.dtype == _arrays.BFLOAT16_BITS:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _reason_of_watchers(tensors):
    """Why PyTorch must see its own operators, to which vkattn's results would be constants; otherwise None."""
    if torch.compiler.is_compiling():
        return "it is being compiled"
    if torch.jit.is_tracing():
        return "it is being traced"
    if torch._C._len_torch_dispatch_stack() > 0:
        return "a dispatch mode watches PyTorch's operators"
    if any(type(x) not in (torch.Tensor, torch.nn.Parameter) or x.layout != torch.strided for x in tensors):
        return "there are tensors of a class or layout of their own"
    if torch._C._functorch.maybe_current_level() is not None:
        return "it is transformed by torch.func"
    if not all(torch._C._has_storage(x) for x in tensors):
        return "there are tensors that stand for many (is_grads_batched, vectorize)"
    return None


def _have_tangents(*tensors):
    """True if one of them is a dual tensor of forward-mode differentiation."""
    return any(isinstance(x, torch.Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def _by_operators(query, key, value, mask, keywords):
    """PyTorch's attention, operator by operator, in float32: its fused operator lacks second derivatives."""
    query32, key32, value32 = query.float(), key.float(), value.float()
    if mask is not None and mask.dtype == torch.bool:  # the operator adds any mask
        mask = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf)
    elif mask is not None:
        mask = mask.float()
    output, _ = torch.ops.aten._scaled_dot_product_attention_math(
        query32, key32, value32, mask, keywords["dropout"], keywords["is_causal"], scale=keywords["scale"],
        enable_gqa=keywords["enable_gqa"])
    return output.to(query.dtype)


def _gradients_by_operators(grad_output, given, needed, keywords, reason):
    """The needed gradients of `given`, None for the others; differentiable themselves if PyTorch asks for that."""
    if keywords["dropout"]:
        raise RuntimeError(
            f"vkattn does not compute these gradients because {reason}, and PyTorch cannot, as it does not know which "
            f"weights dropout_p={keywords['dropout']} dropped; set dropout_p=0, or call PyTorch's "
            "scaled_dot_product_attention")
    _say_once(reason)
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad(), torch.autocast("cpu", enabled=False):
        # Views as inputs: if one input was made from another, each still gets its own part of the gradient.
        own = [x.view_as(x) if need else x for x, need in zip(given, needed)]
        output = _by_operators(*own, keywords)
        wanted = [x for x, need in zip(own, needed) if need]
        found = iter(torch.autograd.grad(output, wanted, grad_output, create_graph=create_graph))
    return tuple(next(found) if need else None for need in needed)


def _reason_against(query, key, value, mask, is_causal):
    """Why PyTorch computes it; None if vkattn can. PyTorch also refuses invalid calls."""
    given = [query, key, value] + ([] if mask is None else [mask])
    reason = _reason_of_watchers(given)
    if reason is not None:
        return reason
    if any(x.device.type != "cpu" for x in given):
        return "there are tensors on another device than the CPU"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    if query.dtype not in _TYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        return "query, key and value are not all float32, float16 or bfloat16"
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        return "the mask is neither bool nor of floating point"
    if mask is not None and is_causal:
        return "there are both a mask and is_causal"
    return None


def _reason_against_gradients(grad_output):
    """Why PyTorch computes the gradients of an output that vkattn computed; None if vkattn can."""
    if torch.is_grad_enabled():
        return "its gradients are to be differentiated (create_graph=True)"
    if _have_tangents(grad_output):
        return "it is differentiated in forward mode"
    return _reason_of_watchers([grad_output])


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
    def backward(ctx, grad_output):
        reason = _reason_against_gradients(grad_output)
        if reason is not None:
            return (*_gradients_by_operators(grad_output, ctx.saved_tensors[:4], ctx.needs_input_grad[:4], ctx.keywords,
                                             reason), None)
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
    """torch.nn.functional.scaled_dot_product_attention on a Vulkan device, with gradients.

    query (..., Hq, L, E), key (..., H, S, E), value (..., H, S, Ev); attn_mask broadcasts to (..., Hq, L, S): bool,
    True takes part, or floating point, added. Tensors are float32, float16 or bfloat16 in host memory; they and the
    results are copied to and from the device. Sums are float32. Returns (..., Hq, L, Ev).

    Dropout draws its own bits, from a seed that torch.manual_seed decides. A row that sees no key is 0.

    PyTorch computes what vkattn does not take (other types and devices, tensor subclasses, torch.compile,
    torch.jit.trace, ONNX export, torch.func, autocast, heads above 576, …); a warning says so once for each reason.
    PyTorch also computes forward-mode derivatives and gradients that are differentiated again (create_graph=True,
    hessian), operator by operator. With dropout these raise RuntimeError.
    """
    reason = _reason_against(query, key, value, attn_mask, is_causal)
    if reason is None:
        mask = attn_mask.float() if attn_mask is not None and attn_mask.dtype == torch.bfloat16 else attn_mask
        keywords = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa, "dropout": dropout_p}
        if _have_tangents(query, key, value, mask):
            _say_once("it is differentiated in forward mode")
            return _by_operators(query, key, value, mask, keywords)
        keywords["dropout_seed"] = int(torch.randint(2**63 - 1, (), device="cpu")) if dropout_p else 0
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
    """A context in which torch.nn.functional.scaled_dot_product_attention is vkattn's, in all threads.

    torch.nn.MultiheadAttention, and models that call the function by that name, then attend on the Vulkan device.
    Models that imported the function itself keep PyTorch's. So does the fast path of torch.nn.TransformerEncoderLayer
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

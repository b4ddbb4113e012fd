"""Why vkattn does not compute a call: each function gives a sentence's end, or None."""
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad

FORWARD_MODE = "it is differentiated in forward mode"
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_TRACED = (FakeTensor, FunctionalTensor)  # of torch.compile and torch.export: they keep vkattn's operator
_TYPES = (torch.float32, torch.float16, torch.bfloat16)
# The options of vkattn.attention with which PyTorch's attention means the same.
_OF_PYTORCH = {"is_causal", "scale", "enable_gqa", "dropout", "device", "kernel"}
_TENSORS_OF_PYTORCH = {"query", "key", "value", "mask", "dropout_seed"}


def is_plain(tensors):
    """True for most calls: dense tensors of PyTorch's own classes in host memory, and no mode that must see them.

    Then no other reason of this file but of_pytorchs_function() holds, nothing is traced, and nothing is cast. It is
    one question in place of many, as a small call takes no longer than these do.
    """
    if (torch._C._functorch.maybe_current_level() is not None or torch._C._len_torch_dispatch_stack()
            or torch._C._is_tracing() or torch.onnx.is_in_onnx_export() or forward_ad._current_level >= 0
            or torch.is_autocast_enabled("cpu")):
        return False
    for x in tensors:
        if type(x) not in _PLAIN or not x.is_cpu or x.layout != torch.strided or not torch._C._has_storage(x):
            return False
    return True


def of_watchers(tensors):
    """Why PyTorch must see its own operators."""
    if torch.onnx.is_in_onnx_export():
        return "it is exported to ONNX"
    for x in tensors:
        if type(x) not in _PLAIN and not isinstance(x, _TRACED) or x.layout != torch.strided:
            return "there are tensors of a class or layout of their own"
    if torch._C._functorch.maybe_current_level() is not None:
        return "it is transformed by torch.func"
    if not all(isinstance(x, _TRACED) or torch._C._has_storage(x) for x in tensors):
        return "there are tensors that stand for many (is_grads_batched, vectorize)"
    return None


def of_devices(tensors, copies):
    """Why PyTorch computes with tensors that lie elsewhere."""
    if not copies and any(x.device.type != "cpu" for x in tensors):
        return "there are tensors on another device than the CPU (copies=True copies them)"
    return None


def _has_heads_in_turn(query, mask):
    """Whether the mask has several heads but not one for each query head, which PyTorch does not broadcast."""
    return mask is not None and mask.dim() > 2 < query.dim() and mask.shape[-3] not in (1, query.shape[-3])


def of_pytorchs_function(query, key, value, mask, is_causal):
    """Why a call of PyTorch's function is left to it. It refuses invalid calls too."""
    if not (torch.backends.cuda.flash_sdp_enabled() and torch.backends.cuda.math_sdp_enabled()):
        return "sdpa_kernel chooses among PyTorch's kernels"
    if query.dtype not in _TYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        return "query, key and value are not all float32, float16 or bfloat16"
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        return "the mask is neither bool nor of floating point"
    if mask is not None and is_causal:
        return "there are both a mask and is_causal"
    if _has_heads_in_turn(query, mask):
        return "the heads of the mask are not those of the query"
    return None


def unknown_to_pytorch(tensors, options):
    """What of this call PyTorch's attention does not have; None if it can compute it."""
    for name, x in tensors.items():
        if x is not None and name not in _TENSORS_OF_PYTORCH:
            return name
    for name, x in options.items():
        is_default = x in (None, False) or (name, x) == ("align", "top-left")
        if not is_default and name not in _OF_PYTORCH and (name, x) != ("return_weights", "probabilities"):
            return name
    if options.get("return_weights") and options.get("dropout"):
        return "weights before dropout"
    if tensors.get("mask") is not None and options.get("is_causal"):
        return "mask together with is_causal"
    if _has_heads_in_turn(tensors["query"], tensors.get("mask")):
        return "a mask of fewer heads"
    return None

"""vkattn's attention in place of PyTorch's: install(), uninstall() and the context replaces_sdpa()."""
import contextlib
import functools
import inspect
import threading

import torch

from . import _attention, _calls
from ._graphs import allow_in_graph

_functional = torch.nn.functional
_pytorch_sdpa = _functional.scaled_dot_product_attention
_pytorch_layer = _functional.multi_head_attention_forward
_layer_signature = inspect.signature(_pytorch_layer)

_lock = threading.Lock()
_uses = []  # the uses in force, as their `copies`
_installed = []  # the use of install(), or none
_before = {}  # the functions that were in PyTorch's places, and whether its fast path was on
_weights = threading.local()  # .wanted: a list for the weights of this thread's next call


def _sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """scaled_dot_product_attention as PyTorch's callers find it. Without a use in force it is PyTorch's."""
    arguments = (query, key, value, attn_mask, dropout_p, is_causal)
    uses = list(_uses)
    if not uses or _attention.is_left_to_pytorch():
        return _pytorch_sdpa(*arguments, scale=scale, enable_gqa=enable_gqa)
    wanted = getattr(_weights, "wanted", None)
    output, weights = _attention.sdpa(*arguments, scale, enable_gqa, copies=any(use[0] for use in uses),
                                      return_weights=None if wanted is None else "probabilities")
    if wanted is not None and weights is not None:
        wanted.append(weights)
    return output


_sdpa = allow_in_graph(_sdpa)
# A module that torch.jit.script compiles while vkattn is installed calls PyTorch's operator.
torch.jit._builtins._register_builtin(_sdpa, "aten::scaled_dot_product_attention")


def _reason_against_weights(given):
    """Why PyTorch computes a layer's call that asks for weights; None if vkattn does."""
    if given["dropout_p"] and given.get("training", True):
        return "a layer asks for weights (need_weights=True) with dropout, which vkattn gives as they are before it"
    return None


@functools.wraps(_pytorch_layer)
def _layer(*arguments, **keywords):
    """multi_head_attention_forward, which does not call scaled_dot_product_attention where it returns weights."""
    if not _uses:
        return _pytorch_layer(*arguments, **keywords)
    given = _layer_signature.bind(*arguments, **keywords).arguments
    if not given.get("need_weights", True):
        return _pytorch_layer(*arguments, **keywords)
    query, key, value = (given[name] for name in ("query", "key", "value"))
    reason = _reason_against_weights(given)
    if reason is not None:
        _calls.by_pytorch(reason, query, key, value)
        return _pytorch_layer(*arguments, **keywords)
    given["need_weights"] = False
    if given.get("attn_mask") is not None:  # which says more than the hint; without a mask PyTorch refuses the hint
        given["is_causal"] = False
    _weights.wanted = found = []
    try:
        output, _ = _pytorch_layer(**given)
    finally:
        del _weights.wanted
    if not found:  # PyTorch computed it, and has told why
        return _pytorch_layer(*arguments, **keywords)
    weights = found[0].to(output.dtype)
    if given.get("average_attn_weights", True):
        weights = weights.mean(dim=1)
    return output, weights if query.dim() == 3 else weights.squeeze(0)


_layer = allow_in_graph(_layer)
_layer.__prepare_scriptable__ = lambda: _pytorch_layer
_PLACES = {"scaled_dot_product_attention": _sdpa, "multi_head_attention_forward": _layer}


def _begin(copies):
    """A new use. The first one puts vkattn's functions in PyTorch's places."""
    use = [bool(copies)]
    with _lock:
        if not _uses:
            for name, function in _PLACES.items():
                if getattr(_functional, name) is not function:
                    _before[name] = getattr(_functional, name)
                    setattr(_functional, name, function)
            _before["fast path"] = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)
        _uses.append(use)
    return use


def _end(use):
    """Ends a use. The last one puts back what was there, except where somebody else has put something since."""
    with _lock:
        _uses[:] = [other for other in _uses if other is not use]
        if _uses:
            return
        for name, function in _PLACES.items():
            if getattr(_functional, name) is function and name in _before:
                setattr(_functional, name, _before.pop(name))
        if not torch.backends.mha.get_fastpath_enabled():
            torch.backends.mha.set_fastpath_enabled(_before.pop("fast path"))


def install(copies=False):
    """From now on torch.nn.functional.scaled_dot_product_attention is vkattn's, in all threads.

    torch.nn.MultiheadAttention, and models that call the function by that name, then attend on the Vulkan device. A
    layer that returns weights (need_weights=True, the default) does so too, and the fast path of layers without
    gradients, which calls neither function, is off (torch.backends.mha). Models that imported the function itself keep
    PyTorch's. copies: also for tensors on other devices, which are copied to host memory and back.
    """
    use = _begin(copies)
    with _lock:
        before, _installed[:] = list(_installed), [use]
    for other in before:
        _end(other)


def uninstall():
    """Ends what install() began. It may be called without it."""
    with _lock:
        uses, _installed[:] = list(_installed), []
    for use in uses:
        _end(use)


@contextlib.contextmanager
def replaces_sdpa(copies=False):
    """A context in which vkattn is installed, as by install(). Contexts may overlap, and end in any order.

        with vkattn.torch.replaces_sdpa():
            loss = model(batch).loss
            loss.backward()
    """
    use = _begin(copies)
    try:
        yield
    finally:
        _end(use)

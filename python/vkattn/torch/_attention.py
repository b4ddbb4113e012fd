"""vkattn.torch's functions of attention: forms of by_vkattn(), which calls the operator."""
import contextlib
import sys
import threading

import torch

from .. import _arguments
from .._errors import Error
from . import _calls, _derivatives, _operators, _reasons
from ._graphs import allow_in_graph

_pytorch = torch.nn.functional.scaled_dot_product_attention
# Errors that come before anything is computed, and that PyTorch's attention may not have.
_REFUSALS = ("invalid_argument", "unsupported", "limit_exceeded")
_OF_SCORES = ("query", "key", "value", "mask")
_thread = threading.local()  # .is_left: PyTorch's own function is computing, and calls itself by its public name


def _autocast(tensors):
    """The tensors as autocast gives them to PyTorch's attention, where it is on."""
    device = tensors["query"].device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return {name: x.to(dtype) if name in _OF_SCORES and x.is_floating_point() and x.dtype != torch.float64 else x
            for name, x in tensors.items()}


def _seed(seed):
    """The seed as a tensor, so that a graph draws a new one in each run. torch.manual_seed decides what is drawn."""
    if seed is None:
        return torch.randint(2**63 - 1, (), device="cpu")
    return torch.tensor((seed + 2**63) % 2**64 - 2**63, device="cpu")  # the same 64 bits


def _as_stored(name, x):
    """A tensor in host memory, of a type that vkattn.attention takes for this argument."""
    if not x.is_cpu:
        x = x.cpu()
    return x.float() if name in _arguments.PER_HEAD or (name == "mask" and x.dtype == torch.bfloat16) else x


def _packed(query, key, value, **others):
    """The tensors of a call, with jagged query, key and value (batch, heads, rows, dim) as packed sequences."""
    packed = {name: x.values() for name, x in (("query", query), ("key", key), ("value", value))}
    return {**packed, **others, "cumulative_query_lengths": query.offsets(), "cumulative_kv_lengths": key.offsets()}


def _is_jagged(x):
    return (x.is_nested and x.layout == torch.jagged and x.dim() == 4 and x._ragged_idx == 2 and x._lengths is None)


def _are_alike(one, other):
    """Whether offsets are equal, as far as these are numbers already."""
    return one is other or type(one) is not torch.Tensor or type(other) is not torch.Tensor or torch.equal(one, other)


def by_vkattn(tensors, options, *, seed=None, copies=False, with_lse=True, refuses=None):
    """((output, lse, weights), None) by the device, or (None, the reason against it).

    tensors   by the names of _operators.TENSORS, without those that are not given
    options   the keywords of vkattn.attention that are no tensors
    with_lse  False: lse may be None
    refuses   a function that gives a further reason against the tensors
    """
    query = tensors["query"]
    given = list(tensors.values())
    is_plain = _reasons.is_plain(given)
    if not is_plain and isinstance(query, torch.Tensor) and all(
            _is_jagged(tensors[name]) for name in ("query", "key", "value")):
        if not _are_alike(tensors["key"].offsets(), tensors["value"].offsets()):
            return None, "key and value are jagged in different ways"
        results, reason = by_vkattn(_packed(**tensors), options, seed=seed, copies=copies, with_lse=with_lse,
                                    refuses=refuses)
        if results is not None:
            results = (torch.nested.nested_tensor_from_jagged(results[0], query.offsets(), jagged_dim=2), *results[1:])
        return results, reason
    if is_plain:
        reason = refuses(tensors) if refuses else None
    else:
        reason = _reasons.of_watchers(given) or _reasons.of_devices(given, copies)
        if reason is None:
            tensors = _autocast(tensors)
            reason = refuses(tensors) if refuses else None
        if reason is None and _derivatives.have_tangents(*given):
            reason = _reasons.FORWARD_MODE
    if reason is not None:
        return None, reason
    stored = {name: _as_stored(name, x) for name, x in tensors.items()}
    if options.get("dropout"):
        stored["dropout_seed"] = _seed(seed)
    results = _operators.attend(stored, options, is_plain=is_plain, with_lse=with_lse)
    if not is_plain and query.device.type != "cpu":
        results = tuple(x.to(query.device) for x in results)
    return results, None


def _by_pytorch(tensors, options, reason, return_lse, seed=None):
    """(output, lse, weights) by PyTorch, if its attention means the same as this call; otherwise an error."""
    has_seed = seed is not None and options.get("dropout")
    unknown = "dropout_seed" if has_seed else _reasons.unknown_to_pytorch(tensors, options)
    if unknown is not None:
        raise Error(f"vkattn does not compute this attention because {reason}; PyTorch, which could, has no {unknown}",
                    "unsupported")
    _calls.by_pytorch(reason, *tensors.values())
    if reason == _reasons.FORWARD_MODE or return_lse or options.get("return_weights"):
        return _derivatives.in_steps(_autocast(tensors), options, return_lse)
    output = _pytorch(*(tensors.get(name) for name in _OF_SCORES), options["dropout"], options["is_causal"],
                      scale=options["scale"], enable_gqa=options["enable_gqa"])
    return output, None, None


def _required(tensors):
    """The tensors that are given. Each must be a tensor."""
    for name, x in tensors.items():
        if x is not None and not isinstance(x, torch.Tensor):
            raise _arguments.wrong(x, name, "a tensor of PyTorch")
    return {name: x for name, x in tensors.items() if x is not None}


def flag(x, name):
    """A bool, also of a symbol of torch.compile's, whose graph then holds for this value alone."""
    return bool(x) if isinstance(x, torch.SymBool) else _arguments.flag(x, name)


_FLAGS = dict.fromkeys(("is_causal", "enable_gqa", "return_lse", "copies"), flag)


def _listed(x, name):
    """A tensor of one number for each head or entry, which may be given as a list or an array."""
    if x is None or isinstance(x, torch.Tensor):
        return x
    try:
        return torch.as_tensor(x, device="cpu")
    except (TypeError, ValueError, RuntimeError) as e:
        raise _arguments.wrong(x, name, "a tensor of PyTorch, or a list of numbers") from e


def _call(tensors, options, modifiers, *, seed, copies, return_lse):
    """What a public function returns."""
    lists = {name: _listed(x, name) for name, x in modifiers.items()
             if name in _arguments.PER_HEAD and not isinstance(x, bool)}
    options = {**options, **{name: x for name, x in modifiers.items() if name not in lists and x is not None}}
    tensors = _required({**tensors, **lists})
    results, reason = by_vkattn(tensors, options, seed=seed, copies=copies, with_lse=return_lse)
    if results is None:
        results = _by_pytorch(tensors, options, reason, return_lse, seed)
    output, lse, weights = results
    extra = [x for x, wanted in ((lse, return_lse), (weights, options.get("return_weights"))) if wanted]
    return (output, *extra) if extra else output


@allow_in_graph
@_arguments.reads(**_FLAGS)
def attention(query, key, value, mask=None, *, is_causal=False, align="top-left", scale=None, enable_gqa=False,
              modifiers, kv_lengths=None, dropout=0.0, dropout_seed=None, return_lse=False, return_weights=None,
              device=None, kernel=None, copies=False):
    """vkattn.attention on tensors, with gradients: that function's docstring says what the keywords mean.

    query, key, value, mask and the numbers for each head of alibi and sinks may require gradients; the output's
    and lse's are computed on the device, and those of the probabilities by PyTorch's operators; return_weights of
    other stages has none. Tensors are float32, float16 or bfloat16. The output lies in memory as the query
    does. Under autocast query, key, value and mask get its type. Jagged nested tensors (batch, heads, rows, dim) are
    packed sequences.

    dropout_seed    an integer. None: torch.manual_seed decides.
    copies          True: tensors on other devices are copied to host memory and back; otherwise PyTorch computes them.

    PyTorch computes what vkattn cannot (torch.func, tensor subclasses, forward-mode derivatives, …) if its attention
    has all that the call asks for, and vkattn.torch.calls() counts it; otherwise the call is a vkattn.Error.

        >>> q, k, v = (torch.randn(1, 8, 512, 64, requires_grad=True) for _ in range(3))
        >>> vkattn.torch.attention(q, k, v, is_causal=True, window=(128, 0)).sum().backward()
    """
    tensors = {"query": query, "key": key, "value": value, "mask": mask,
               "kv_lengths": _listed(kv_lengths, "kv_lengths")}
    options = {"is_causal": is_causal, "align": align, "scale": scale, "enable_gqa": enable_gqa, "dropout": dropout,
               "return_weights": return_weights, "device": device, "kernel": kernel}
    return _call(tensors, options, modifiers, seed=dropout_seed, copies=copies, return_lse=return_lse)


@allow_in_graph
@_arguments.reads(
    **_FLAGS, cu_seqlens_q=_arguments.ELSEWHERE, cu_seqlens_k=_arguments.ELSEWHERE,
    max_seqlen_q=_arguments.integer, max_seqlen_k=_arguments.integer)
def varlen_attention(query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q=None, max_seqlen_k=None, *, mask=None,
                     is_causal=False, align="top-left", scale=None, enable_gqa=False, modifiers, dropout=0.0,
                     dropout_seed=None, return_lse=False, device=None, kernel=None, copies=False):
    """attention() on packed sequences, in the layout of FlashAttention's flash_attn_varlen_func.

    query           (rows, query_heads, head_dim): all sequences one after the other
    key, value      (rows, kv_heads, head_dim), (rows, kv_heads, value_dim)
    cu_seqlens_q    (sequences + 1,), integers: where each sequence of queries begins, and where the last one ends
    cu_seqlens_k    the same for keys
    max_seqlen_q, max_seqlen_k
                    may be left out. If they are given, a longer sequence is an error.
    mask            broadcasts to (sequences, query_heads, longest sequence of queries, longest of keys)
    align           'bottom-right' is FlashAttention's.
    Returns         (rows, query_heads, value_dim), and with return_lse also (query_heads, rows).
    """
    tensors = _required({"query": query, "key": key, "value": value, "mask": mask})
    for name in ("query", "key", "value"):
        if tensors[name].dim() == 3:  # otherwise the library says what is wrong
            tensors[name] = tensors[name].transpose(0, 1)
    for name, x, own in (("cu_seqlens_q", cu_seqlens_q, "cumulative_query_lengths"),
                         ("cu_seqlens_k", cu_seqlens_k, "cumulative_kv_lengths")):
        if x is None:
            raise _arguments.wrong(x, name, "a tensor of PyTorch, or a list of numbers")
        tensors[own] = _listed(x, name)
    options = {"is_causal": is_causal, "align": align, "scale": scale, "enable_gqa": enable_gqa, "dropout": dropout,
               "device": device, "kernel": kernel, "max_seqlen_q": max_seqlen_q, "max_seqlen_k": max_seqlen_k}
    results = _call(tensors, options, modifiers, seed=dropout_seed, copies=copies, return_lse=return_lse)
    output, *extra = results if return_lse else (results,)
    return (output.transpose(0, 1), *extra) if extra else output.transpose(0, 1)


def _is_causal_bias(mask):
    """Whether it is a CausalBias. The module of this class loads torch._dynamo; without it there is none."""
    if type(mask) is torch.Tensor or mask is None:
        return False
    module = sys.modules.get("torch.nn.attention.bias")
    return module is not None and isinstance(mask, module.CausalBias)


def _of_bias(query, key, mask):
    """(mask, is_causal, align) of a CausalBias that fits the lengths; None for other masks."""
    if not _is_causal_bias(mask) or (mask.seq_len_q, mask.seq_len_kv) != (query.shape[-2], key.shape[-2]):
        return None
    return None, True, "top-left" if mask.variant == type(mask.variant).UPPER_LEFT else "bottom-right"


@contextlib.contextmanager
def _left_to_pytorch():
    """A context in which this thread's calls of PyTorch's function are PyTorch's own."""
    _thread.is_left = True
    try:
        yield
    finally:
        _thread.is_left = False


def is_left_to_pytorch():
    """Whether this thread is in such a context."""
    return getattr(_thread, "is_left", False)


def sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, *,
         copies=False, return_weights=None):
    """(output, weights or None) of a call of PyTorch's function, by vkattn or else by PyTorch."""
    mask, causal, align = (not is_causal and _of_bias(query, key, attn_mask)) or (attn_mask, is_causal, "top-left")
    tensors = {"query": query, "key": key, "value": value}
    if mask is not None:
        tensors["mask"] = mask
    options = {"is_causal": flag(causal, "is_causal"), "align": align,
               "scale": scale if scale is None else _arguments.number(scale, "scale"),
               "enable_gqa": flag(enable_gqa, "enable_gqa"), "dropout": _arguments.number(dropout_p, "dropout_p"),
               "return_weights": return_weights}

    def refuses(given):
        return _reasons.of_pytorchs_function(given["query"], given["key"], given["value"], given.get("mask"), causal)

    try:
        results, reason = by_vkattn(tensors, options, copies=copies, with_lse=False, refuses=refuses)
        if results is not None:
            return results[0], results[2]
    except Error as e:
        if e.code not in _REFUSALS:
            raise
        reason = str(e)
    if reason == _reasons.FORWARD_MODE and _reasons.unknown_to_pytorch(tensors, options) is None:
        return _by_pytorch(tensors, options, reason, return_lse=False)[0], None
    _calls.by_pytorch(reason, query, key, value)
    # A CausalBias knows PyTorch's function by its own name alone.
    function = attn_mask._dispatch if _is_causal_bias(attn_mask) else _pytorch
    with _left_to_pytorch() if function is not _pytorch else contextlib.nullcontext():
        return function(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa), None


@allow_in_graph
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention on a Vulkan device, with gradients.

    query (..., Hq, L, E), key (..., H, S, E), value (..., H, S, Ev); attn_mask broadcasts to (..., Hq, L, S): bool,
    True takes part, or floating point, added, or a CausalBias. Tensors are float32, float16 or bfloat16 in host memory;
    they and the results are copied to and from the device. Sums are float32. Returns (..., Hq, L, Ev).

    Dropout draws its own bits, from a seed that torch.manual_seed decides. A row that sees no key is 0.

    PyTorch computes what vkattn does not take (other types and devices, tensor subclasses, ONNX export, torch.func,
    kernels that sdpa_kernel chooses, heads above 576, …); a warning says so once for each reason, and calls() counts
    it. PyTorch also computes forward-mode derivatives and gradients that are differentiated again (create_graph=True,
    hessian), operator by operator. With dropout these raise RuntimeError.
    """
    return sdpa(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)[0]

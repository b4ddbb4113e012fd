"""The operators vkattn::attention and vkattn::attention_backward, with shapes for tracing and the autograd formula.

torch.compile, torch.export and torch.jit.trace keep them in their graphs. Arguments that are no tensors travel as one
str in JSON, by the names that vkattn.attention has.
"""
import functools
import json

import numpy as np
import torch

from .. import _arguments, _backward, _problem
from .._attention import attention
from .._backward import attention_backward
from .._errors import RuleError
from . import _calls, _derivatives, _reasons
from ._convert import empty_in_order_of, in_order_of, numpy_of, tensor_of

# Inputs that may have a gradient, and others.
INPUTS = _backward.Gradients._fields
LENGTHS = ("kv_lengths", "cumulative_query_lengths", "cumulative_kv_lengths")
TENSORS = (*INPUTS, *LENGTHS, "dropout_seed")
# Options of a problem as vkattn.attention has them by default.
_DEFAULTS = {"is_causal": False, "align": "top-left", "scale": None, "enable_gqa": False, "dropout": 0.0,
             "return_lse": True, "return_weights": None}
# An array of one element of each type, made while no mode of PyTorch's watches.
_ELEMENTS = {dtype: numpy_of(torch.zeros((), dtype=dtype)) for dtype in (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.bool, torch.int32, torch.int64)}

_SCHEMA = ", ".join(f"Tensor{'' if name in ('query', 'key', 'value') else '?'} {name}" for name in TENSORS)
# Inductor must not give the inputs other strides: the output follows the query's.
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
torch.library.define("vkattn::attention", f"({_SCHEMA}, str options) -> (Tensor, Tensor, Tensor)", tags=_TAGS)
torch.library.define(
    "vkattn::attention_backward",
    f"(Tensor grad_output, Tensor? grad_lse, Tensor output, Tensor lse, {_SCHEMA}, str options, str gradients) -> "
    "Tensor[]", tags=_TAGS)


def _number(x):
    """The number of a symbol of torch.compile's, whose graph then holds for this number alone."""
    if isinstance(x, torch.SymBool):
        return bool(x)
    return int(x) if isinstance(x, torch.SymInt) else float(x)


def attend(tensors, options, *, is_plain, with_lse=True):
    """(output, lse, weights) of the tensors by name.

    If nobody must see the operator, its implementation is called, because PyTorch's dispatcher takes long beside a
    small call. lse may then be None, and weights too if options do not ask for them.
    """
    arguments = [tensors.get(name) for name in TENSORS]
    if not is_plain:
        return torch.ops.vkattn.attention.default(*arguments, json.dumps(options, default=_number))
    if torch.is_grad_enabled():
        for x in arguments[:len(INPUTS)]:
            if x is not None and x.requires_grad:
                return _Attention.apply(*arguments, options)
    return _attend(arguments, options, with_lse)


@functools.lru_cache(256)
def _options_of(text):
    """The options of an operator's text. They are shared and must not be changed."""
    return json.loads(text)


def _keywords(tensors, options):
    """The keywords of attention and attention_backward within their decorator, for the tensors behind value.

    The options have been read when the call began.
    """
    keywords = {name: numpy_of(x) for name, x in zip(TENSORS[3:], tensors[3:]) if x is not None}
    if "dropout_seed" in keywords:
        keywords["dropout_seed"] = int(keywords["dropout_seed"])
    keywords.update(options)
    longest = [keywords.pop(name, None) for name in ("max_seqlen_q", "max_seqlen_k")]
    if any(longest):
        for cumulative, most, name in zip(LENGTHS[1:], longest, ("max_seqlen_q", "max_seqlen_k")):
            _require_no_longer(keywords.get(cumulative), most, cumulative, name)
    keywords["modifiers"] = {row.name: keywords.pop(row.name, None) for row in _arguments.MODIFIERS}
    return keywords


def _require_no_longer(cumulative, longest, cumulative_name, name):
    if longest is None or cumulative is None or cumulative.ndim != 1 or cumulative.size < 2:
        return
    found = int((cumulative[1:] - cumulative[:-1]).max())
    if found > longest:
        raise RuleError(f"{name} is {longest}, but {cumulative_name} has a sequence of {found} rows")


def _attention(*arguments):
    *tensors, options = arguments
    output, lse, weights = _attend(tensors, _options_of(options))
    return output, lse, lse.new_empty(0) if weights is None else weights


def _attend(tensors, options, with_lse=True):
    """(output, lse or None, weights or None)"""
    query, key, value = tensors[:3]
    keywords = _keywords(tensors, options)
    results = attention.__wrapped__(numpy_of(query), numpy_of(key), numpy_of(value), return_lse=with_lse, **keywords)
    _calls.on_device(_calls.DEVICE, query, key, value)
    output, *extra = [tensor_of(x) for x in results] if isinstance(results, tuple) else (tensor_of(results),)
    lse = extra.pop(0) if with_lse else None
    return in_order_of(query, output), lse, extra[0] if extra else None


def _numbers_of(shape):
    """The sizes as numbers; of symbols those of the example from which the graph is made, None if there is none."""
    return [size if isinstance(size, int) else size.node.hint if size.node.has_hint() else None for size in shape]


def _stand_in(x):
    """An array of a tensor's shape and type without memory of its own."""
    return None if x is None else np.broadcast_to(_ELEMENTS[x.dtype], _numbers_of(x.shape))


def _check_rules(tensors, options):
    """Raises what the library says of a problem whose sizes are known, before a graph is made of it."""
    given = dict(zip(TENSORS, tensors))
    present = [x for x in tensors if x is not None]
    has_numbers = all(None not in _numbers_of(x.shape) for x in present)
    is_packed = given["cumulative_query_lengths"] is not None
    if is_packed or not has_numbers or any(x.dtype not in _ELEMENTS for x in present):
        return
    arrays = {name: _stand_in(x) for name, x in given.items() if name != "dropout_seed"}
    keywords = {**_DEFAULTS, **{name: x for name, x in _options_of(options).items() if x is not None}}
    modifiers = {row.name: keywords.pop(row.name, arrays.pop(row.name, None)) for row in _arguments.MODIFIERS}
    used = {name: keywords[name] for name in _DEFAULTS}
    _problem.make(**arrays, modifiers=modifiers, **used)


@torch.library.register_fake("vkattn::attention")
def _shapes(*arguments):
    *tensors, options = arguments
    query, key, value = tensors[:3]
    _check_rules(tensors, options)
    rows = query.shape[-2:-1]
    if max(x.dim() for x in (query, key, value)) > 2:
        lead = torch.broadcast_shapes(*(x.shape[:-3] for x in (query, key, value)))
        rows = (*lead, query.shape[-3] if query.dim() > 2 else 1, *rows)
    weights = (*rows, key.shape[-2]) if _options_of(options).get("return_weights") else (0,)
    return (empty_in_order_of(query, (*rows, value.shape[-1])), query.new_empty(rows, dtype=torch.float32),
            query.new_empty(weights, dtype=torch.float32))


def _attention_backward(grad_output, grad_lse, output, lse, *arguments):
    *tensors, options, names = arguments
    return _differentiate(grad_output, grad_lse, output, lse, tensors, _options_of(options), names.split(","))


def _differentiate(grad_output, grad_lse, output, lse, tensors, options, wanted):
    keywords = _keywords(tensors, options)
    keywords.pop("return_weights", None)
    if keywords.get("kernel") in ("decode", "lane_decode"):  # they compute no gradients
        del keywords["kernel"]
    query, key, value = (numpy_of(x) for x in tensors[:3])
    if grad_lse is not None:
        keywords["grad_lse"] = numpy_of(grad_lse)
    found = attention_backward.__wrapped__(numpy_of(grad_output), query, key, value, numpy_of(output), numpy_of(lse),
                                           gradients=wanted, **keywords)
    _calls.on_device(_calls.GRADIENTS, *tensors[:3])
    return [tensor_of(getattr(found, name)) for name in wanted]


@torch.library.register_fake("vkattn::attention_backward")
def _gradient_shapes(grad_output, grad_lse, output, lse, *arguments):
    tensors, names = dict(zip(TENSORS, arguments)), arguments[-1]
    given = [tensors[name] for name in names.split(",")]
    return [x.new_empty(x.shape, dtype=torch.float32 if x.dtype == torch.float64 else x.dtype) for x in given]


def _save(ctx, inputs, output):
    *tensors, options = inputs
    output, lse, weights = output
    ctx.save_for_backward(*tensors, output, lse)
    ctx.options = _options_of(options) if isinstance(options, str) else options
    ctx.set_materialize_grads(False)
    if ctx.options.get("return_weights") != "probabilities":  # other stages have no gradients
        ctx.mark_non_differentiable(*(x for x in [weights] if x is not None))


def _gradients(ctx, grad_output, grad_lse, grad_weights):
    *tensors, output, lse = ctx.saved_tensors
    options = ctx.options
    needed = ctx.needs_input_grad[:len(INPUTS)]
    rest = (None,) * (len(TENSORS) - len(INPUTS) + 1)
    grads = _derivatives.Grads(grad_output, grad_lse, grad_weights)
    if all(grad is None for grad in grads):
        return (*(None,) * len(INPUTS), *rest)
    reason = _derivatives.reason_against(grads)
    if reason is not None:
        given = dict(zip(TENSORS, tensors))
        return (*_derivatives.by_operators(grads, given, needed, options, reason), *rest)
    wanted = [name for name, need in zip(INPUTS, needed) if need]
    if grad_output is None:
        grad_output = torch.zeros_like(output)
    of_output = (grad_output, grad_lse, output, lse)
    if _reasons.is_plain([x for x in (*of_output, *tensors) if x is not None]):
        results = _differentiate(*of_output, tensors, options, wanted)
    else:
        text = json.dumps(options, default=_number)
        results = torch.ops.vkattn.attention_backward.default(*of_output, *tensors, text, ",".join(wanted))
    found = iter(results)
    return (*(next(found) if need else None for need in needed), *rest)


class _Attention(torch.autograd.Function):
    """The operator's formula for calls that the operator's dispatcher need not see."""

    @staticmethod
    def forward(ctx, *inputs):
        *tensors, options = inputs
        results = _attend(tensors, options)
        _save(ctx, inputs, results)
        return results

    @staticmethod
    def backward(ctx, *grads):
        return _gradients(ctx, *grads)


torch.library.impl("vkattn::attention", "cpu", _attention)
torch.library.impl("vkattn::attention_backward", "cpu", _attention_backward)
torch.library.register_autograd("vkattn::attention", _gradients, setup_context=_save)

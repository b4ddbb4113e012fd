"""vkattn.attention_backward."""
from typing import NamedTuple, Optional

import numpy as np

from . import _arguments, _arrays, _native, _problem
from ._errors import RuleError

_NAMES = ("query", "key", "value", "mask", *_arguments.PER_HEAD)
Gradients = NamedTuple("Gradients", [(name, Optional[np.ndarray]) for name in _NAMES])
Gradients.__doc__ = """Gradients by the name of their input, each of its shape and type; None if not asked for."""
Gradients.__new__.__defaults__ = (None,) * len(_NAMES)


def _require_gradients_of(names):
    if not names:
        raise RuleError(f"gradients names none; there are those of {', '.join(Gradients._fields)}")
    for name in names:
        if name not in Gradients._fields:
            raise RuleError(f"there is no gradient of {name!r}; there are those of {', '.join(Gradients._fields)}")


def _of_shape(gradient, shape, lead):
    """A gradient (batch, heads, rows, dims) in the shape of its array: summed along dimensions that were broadcast."""
    if gradient.shape == shape:
        return gradient
    own = (1,) * (len(lead) + 3 - len(shape)) + tuple(shape)
    if gradient.shape[0] == 1 and all(size == 1 for size in own[:-3]):
        return gradient.reshape(shape)
    gradient = gradient.reshape(lead + gradient.shape[1:])
    axes = tuple(i for i in range(len(lead)) if own[i] == 1 and gradient.shape[i] != 1)
    if axes:
        total = _arrays.converted(gradient, np.float32).sum(axis=axes, keepdims=True)
        gradient = _arrays.converted(total, gradient.dtype)
    return gradient.reshape(shape)


@_arguments.reads()
def attention_backward(grad_output, query, key, value, output, lse, mask=None, *, is_causal=False, align="top-left",
                       scale=None, enable_gqa=False, modifiers, kv_lengths=None, cumulative_query_lengths=None,
                       cumulative_kv_lengths=None, dropout=0.0, dropout_seed=None, grad_lse=None,
                       gradients=("query", "key", "value"), device=None, kernel=None):
    """The gradients of attention's inputs, from the gradient of its output.

    L is a number computed from the output. `grad_output` is dL/doutput, of the output's shape. If L is computed from
    lse too, `grad_lse` is dL/dlse, float32 of its shape. The result has dL/dquery, dL/dkey and whatever else
    `gradients` names: 'query', 'key', 'value', 'mask' (of floating point), 'alibi' (of given slopes) and 'sinks'.
    `output` and `lse` come from the call

        output, lse = vkattn.attention(query, key, value, mask, return_lse=True, …)

    and all keywords are those of that call. With dropout this includes dropout_seed, which the call must have had.
    Sums are float32, in an order that does not change: equal inputs give equal bits.

    Returns Gradients. Each gradient has the shape and type of its array; a broadcast array gets the sum.
    kernel: as attention()'s, without decode and lane_decode.

        >>> output, lse = vkattn.attention(q, k, v, return_lse=True)
        >>> grads = vkattn.attention_backward(numpy.ones_like(output), q, k, v, output, lse)
        >>> grads.query.shape == q.shape
        True
    """
    if dropout and dropout_seed is None:
        raise RuleError("dropout has no dropout_seed; give the one that attention was given")
    problem, layout = _problem.make(
        query, key, value, mask, is_causal=is_causal, align=align, scale=scale, enable_gqa=enable_gqa,
        modifiers=modifiers, kv_lengths=kv_lengths, cumulative_query_lengths=cumulative_query_lengths,
        cumulative_kv_lengths=cumulative_kv_lengths, dropout=dropout, return_lse=True, return_weights=None,
    )
    _require_gradients_of(gradients)
    output, _ = _arrays.tensor(output, "output")
    grad_output, _ = _arrays.tensor(grad_output, "grad_output")
    if grad_lse is not None:
        grad_lse = layout.batched(_arrays.per_row(grad_lse, "grad_lse"))
    found = _native.backward(
        _problem.session(device), problem, kernel or "", _problem.seed_of(dropout_seed, dropout),
        layout.batched(output), layout.batched(_arrays.per_row(lse)), layout.batched(grad_output), grad_lse,
        set(gradients),
    )
    for name, given in (("query", query), ("key", key), ("value", value), ("mask", mask)):
        if name in found:
            given = _arrays.host_array(given, name)
            gradient = found[name] if name == "mask" else found[name].view(given.dtype)
            found[name] = _of_shape(gradient, given.shape, layout.lead)
    return Gradients(**found)

"""Derivatives that vkattn does not compute: PyTorch does, operator by operator."""
import contextlib
import math
import typing

import torch
from torch.autograd import forward_ad

from . import _calls, _reasons


class Grads(typing.NamedTuple):
    """The gradients of what attention gives; None for those on which nothing depends."""

    output: typing.Optional[torch.Tensor]
    lse: typing.Optional[torch.Tensor]
    weights: typing.Optional[torch.Tensor]


def have_tangents(*tensors):
    """True if one of them is a dual tensor of forward-mode differentiation."""
    return any(isinstance(x, torch.Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def reason_against(grads):
    """Why PyTorch computes the gradients of an output that vkattn computed; None if vkattn can."""
    if grads.weights is not None:
        return "there is a gradient of its weights"
    if torch.is_grad_enabled():
        return "its gradients are to be differentiated (create_graph=True)"
    given = [grad for grad in grads if grad is not None]
    if have_tangents(*given):
        return _reasons.FORWARD_MODE
    return _reasons.of_watchers(given)


def _lse(query, key, mask, options):
    """The logarithm of each row's sum of exponentials of scores, by PyTorch's operators."""
    if options.get("enable_gqa", False):
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scale = options.get("scale")
    scores = (query @ key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if options.get("is_causal", False):
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    if mask is not None:
        scores = scores + mask
    sees_nothing = (scores == -torch.inf).all(-1)  # PyTorch's gradient of such a row would be NaN
    return scores.masked_fill(sees_nothing[..., None], 0).logsumexp(-1).masked_fill(sees_nothing, -torch.inf)


def _without_autocast(device):
    is_known = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if is_known else contextlib.nullcontext()


def in_steps(tensors, options, with_lse):
    """(output, lse or None, weights) by PyTorch's operators in float32: its fused operator lacks second derivatives."""
    query, key, value, mask = (tensors.get(name) for name in ("query", "key", "value", "mask"))
    query32, key32, value32 = query.float(), key.float(), value.float()
    if mask is not None and mask.dtype == torch.bool:  # the operator adds any mask
        mask = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf)
    elif mask is not None:
        mask = mask.float()
    with _without_autocast(query.device):
        output, weights = torch.ops.aten._scaled_dot_product_attention_math(
            query32, key32, value32, mask, options.get("dropout", 0.0), options.get("is_causal", False),
            scale=options.get("scale"), enable_gqa=options.get("enable_gqa", False))
        return output.to(query.dtype), _lse(query32, key32, mask, options) if with_lse else None, weights


def _require_pytorch_can(tensors, options, reason):
    unknown = _reasons.unknown_to_pytorch(tensors, options)
    if unknown is not None:
        raise RuntimeError(f"vkattn does not compute these gradients because {reason}, and PyTorch has no {unknown}")
    if options.get("dropout"):
        raise RuntimeError(
            f"vkattn does not compute these gradients because {reason}, and PyTorch cannot, as it does not know which "
            f"weights dropout_p={options['dropout']} dropped; set dropout_p=0, or call PyTorch's "
            "scaled_dot_product_attention")


def by_operators(grads, tensors, needed, options, reason):
    """The needed gradients of the inputs, None for the others; differentiable themselves if PyTorch asks for that."""
    _require_pytorch_can(tensors, options, reason)
    _calls.by_pytorch(reason, tensors["query"], tensors["key"], tensors["value"])
    create_graph = torch.is_grad_enabled()
    names = list(tensors)[:len(needed)]
    with torch.enable_grad():
        # Views as inputs: if one input was made from another, each still gets its own part of the gradient.
        own = {name: tensors[name].view_as(tensors[name]) if need else tensors[name]
               for name, need in zip(names, needed)}
        computed = in_steps(own, options, with_lse=grads.lse is not None)
        results = [(x, grad) for x, grad in zip(computed, grads) if grad is not None]
        wanted = [own[name] for name, need in zip(names, needed) if need]
        # lse and the weights do not depend on value.
        found = iter(torch.autograd.grad([x for x, _ in results], wanted, [grad for _, grad in results],
                                         create_graph=create_graph, allow_unused=True))
    return tuple(next(found) if need else None for need in needed)

"""Derivatives that vkattn does not compute: PyTorch does, operator by operator."""
import torch
from torch.autograd import forward_ad

from . import _calls, _reasons


def have_tangents(*tensors):
    """True if one of them is a dual tensor of forward-mode differentiation."""
    return any(isinstance(x, torch.Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def reason_against(grad_output, grad_weights):
    """Why PyTorch computes the gradients of an output that vkattn computed; None if vkattn can."""
    if grad_weights is not None:
        return "there is a gradient of its weights"
    if torch.is_grad_enabled():
        return "its gradients are to be differentiated (create_graph=True)"
    if have_tangents(grad_output):
        return _reasons.FORWARD_MODE
    return _reasons.of_watchers([grad_output])


def in_steps(tensors, options):
    """(output, weights) by PyTorch's operators in float32: its fused operator lacks second derivatives."""
    query, key, value, mask = (tensors.get(name) for name in ("query", "key", "value", "mask"))
    query32, key32, value32 = query.float(), key.float(), value.float()
    if mask is not None and mask.dtype == torch.bool:  # the operator adds any mask
        mask = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf)
    elif mask is not None:
        mask = mask.float()
    output, weights = torch.ops.aten._scaled_dot_product_attention_math(
        query32, key32, value32, mask, options.get("dropout", 0.0), options.get("is_causal", False),
        scale=options.get("scale"), enable_gqa=options.get("enable_gqa", False))
    return output.to(query.dtype), weights


def _require_pytorch_can(tensors, options, reason):
    unknown = _reasons.unknown_to_pytorch(tensors, options)
    if unknown is not None:
        raise RuntimeError(f"vkattn does not compute these gradients because {reason}, and PyTorch has no {unknown}")
    if options.get("dropout"):
        raise RuntimeError(
            f"vkattn does not compute these gradients because {reason}, and PyTorch cannot, as it does not know which "
            f"weights dropout_p={options['dropout']} dropped; set dropout_p=0, or call PyTorch's "
            "scaled_dot_product_attention")


def by_operators(grad_output, grad_weights, tensors, needed, options, reason):
    """The needed gradients of the inputs, None for the others; differentiable themselves if PyTorch asks for that."""
    _require_pytorch_can(tensors, options, reason)
    _calls.by_pytorch(reason, tensors["query"], tensors["key"], tensors["value"])
    create_graph = torch.is_grad_enabled()
    names = list(tensors)[:len(needed)]
    with torch.enable_grad(), torch.autocast("cpu", enabled=False):
        # Views as inputs: if one input was made from another, each still gets its own part of the gradient.
        own = {name: tensors[name].view_as(tensors[name]) if need else tensors[name]
               for name, need in zip(names, needed)}
        grads = (grad_output, grad_weights)
        results = [(x, grad) for x, grad in zip(in_steps(own, options), grads) if grad is not None]
        wanted = [own[name] for name, need in zip(names, needed) if need]
        # The weights do not depend on value.
        found = iter(torch.autograd.grad([x for x, _ in results], wanted, [grad for _, grad in results],
                                         create_graph=create_graph, allow_unused=True))
    return tuple(next(found) if need else None for need in needed)

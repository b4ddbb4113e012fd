"""Tensors as NumPy arrays and back, without a copy of their elements."""
import numpy as np
import torch

from .. import _arguments, _arrays
from .._device_arrays import Array


def numpy_of(tensor):
    """A NumPy array that shares the tensor's memory; None for None."""
    if tensor is None:
        return None
    if tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(_arrays.BFLOAT16_BITS)
    return tensor.numpy()


def tensor_of(array):
    """A tensor that shares the array's memory."""
    if _arrays.is_bfloat16(array.dtype):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def from_numpy(x):
    """torch.from_numpy() for all that vkattn returns: also a vkattn.Array, which is copied, and arrays of bfloat16."""
    if isinstance(x, Array):
        x = x.numpy()
    if not isinstance(x, np.ndarray):
        raise _arguments.wrong(x, "x", "a NumPy array or a vkattn.Array")
    return tensor_of(x)


def _order(like, rank):
    """The dimensions from the slowest to the fastest in memory of a tensor that lies as `like` does."""
    if like.is_contiguous():
        return list(range(rank))
    strides = like.stride()
    if len(strides) != rank or any(stride == 0 for stride in strides):
        return list(range(rank))
    return sorted(range(rank), key=lambda i: -strides[i])


def empty_in_order_of(like, shape):
    """A new tensor whose dimensions have the order in memory of those of `like`, as PyTorch's attention gives."""
    return torch.empty_permuted(shape, _order(like, len(shape)), dtype=like.dtype, device=like.device)


def in_order_of(like, tensor):
    """The tensor, copied if its dimensions lie in another order in memory than those of `like`."""
    if like.is_contiguous() or _order(like, tensor.dim()) == list(range(tensor.dim())):
        return tensor
    return empty_in_order_of(like, tensor.shape).copy_(tensor)

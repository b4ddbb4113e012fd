"""Turns what callers give into NumPy arrays of four dimensions for the native module."""
import math
import sys

import numpy as np

from ._arguments import said, wrong
from ._errors import Error, RuleError

# DLPack's numbers of devices whose memory the host can read: CPU, and host memory pinned for CUDA and for ROCm.
_HOST_DEVICES = (1, 3, 11)
_FLOAT32 = np.dtype(np.float32)
_FLOAT16 = np.dtype(np.float16)


# A dtype for the bits of bfloat16 without ml_dtypes.
BFLOAT16_BITS = np.dtype([("bfloat16", np.uint16)])


def is_bfloat16(dtype):
    """True for bfloat16, which NumPy lacks: ml_dtypes' type, or BFLOAT16_BITS."""
    return dtype.itemsize == 2 and (dtype.name == "bfloat16" or dtype == BFLOAT16_BITS)


def bfloat16_type():
    """The dtype of bfloat16: ml_dtypes' if it is installed, otherwise BFLOAT16_BITS."""
    try:
        import ml_dtypes
    except ImportError:
        return BFLOAT16_BITS
    return np.dtype(ml_dtypes.bfloat16)


def _bfloat16_of_torch(x):
    """A bfloat16 tensor of PyTorch as an array that shares its memory; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor) or x.dtype != torch.bfloat16:
        return None
    if x.device.type != "cpu" or x.requires_grad:  # DLPack says why not
        return None
    return x.view(torch.int16).numpy().view(bfloat16_type())


def converted(array, dtype):
    """array.astype(dtype), also from and to BFLOAT16_BITS, which NumPy would treat as integers."""
    dtype = np.dtype(dtype)
    if array.dtype == dtype:
        return array
    if array.dtype == BFLOAT16_BITS:
        bits = array.view(np.uint16).astype(np.uint32)
        array = np.asarray(bits << np.uint32(16)).view(np.float32)
    if dtype == BFLOAT16_BITS:
        return _bfloat16_bits(np.asarray(array.astype(np.float32, copy=False)))
    return array.astype(dtype, copy=False)


def _bfloat16_bits(array):
    """Rounds float32 to bfloat16, to nearest even. A NaN stays NaN."""
    bits = array.view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + (upper & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(array), upper | np.uint32(0x40), rounded).astype(np.uint16).view(BFLOAT16_BITS)


def float32_of(array):
    """The values as float32. Finite values stay finite, as only minus infinity hides a key."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 4:
        most = float(np.finfo(np.float32).max)
        array = np.where(np.isfinite(array), np.clip(array, -most, most), array)
    return converted(array, np.float32)


def _has_numbers(dtype):
    """True for bool, integers, floating point, complex, and types of ml_dtypes."""
    return dtype.kind in "fbiuc" or (dtype.kind == "V" and (dtype.isbuiltin == 2 or is_bfloat16(dtype)))


def require_numbers(dtype, name):
    """Requires elements that are numbers."""
    if not _has_numbers(dtype):
        raise TypeError(f"{name} is an array of {dtype} but must be an array of numbers")


def host_array(x, name):
    """x as a NumPy array of numbers, without a copy if possible. All arrays are read here."""
    array = x if type(x) is np.ndarray else _host_array_of(x, name)
    if array.dtype.kind != "f":
        require_numbers(array.dtype, name)
    return array


def _host_array_of(x, name):
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise TypeError(f"{name} is a masked array with masked elements, which vkattn would not leave out; give "
                        "filled(), and what is to be hidden as a mask")
    from ._device_arrays import Array  # which needs this file

    if isinstance(x, Array):
        return x.numpy()
    if hasattr(type(x), "__dlpack__") and not isinstance(x, np.ndarray):
        array = _bfloat16_of_torch(x)
        return _from_dlpack(x, name) if array is None else array
    try:
        array = np.asarray(x)
    except Error:  # raised by a vkattn.Array
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as e:
        raise wrong(x, name, "an array of numbers") from e
    if not isinstance(x, np.ndarray) and not _has_numbers(array.dtype):
        raise wrong(x, name, "an array of numbers")
    return array


def _from_dlpack(x, name):
    try:
        device = int(x.__dlpack_device__()[0])
        if device in _HOST_DEVICES:
            return np.from_dlpack(x)
    except Exception as e:  # each library and version raises its own
        dtype = getattr(x, "dtype", "an unknown type")
        hint = " (vkattn.torch takes tensors of bfloat16)" if "bfloat16" in str(dtype) else ""
        raise TypeError(f"{name} is {said(x)}, of {dtype}, which NumPy cannot take: {e}{hint}") from e
    raise TypeError(f"{name} lies on a device (DLPack's type {device}); give it in host memory")


def numpy_type(dtype, must):
    """numpy.dtype(dtype), with a sentence of this package if that fails."""
    try:
        if dtype is not None:  # NumPy takes None for float64
            return np.dtype(dtype)
    except Exception:  # NumPy raises several kinds
        pass
    raise wrong(dtype, "dtype", must)


def float_type(dtype):
    """The dtype of float32, float16 or bfloat16, from a name or a type of NumPy, ml_dtypes or PyTorch."""
    word = str(dtype).removeprefix("torch.")
    if word == "bfloat16":
        return bfloat16_type()
    if word != str(dtype):
        dtype = word
    must = "float32, float16 or bfloat16"
    given = numpy_type(dtype, must)
    if given not in (_FLOAT32, _FLOAT16) and not is_bfloat16(given):
        raise TypeError(f"dtype is {given} but must be {must}")
    return given


def tensor(x, name):
    """(array for the native module, its dtype). bfloat16 is passed as uint16."""
    array = host_array(x, name)
    dtype = array.dtype
    if dtype == _FLOAT32 or dtype == _FLOAT16:
        return array, dtype
    if is_bfloat16(dtype):
        return array.view(np.uint16), dtype
    raise TypeError(f"{name} is {dtype} but must be float32, float16 or bfloat16")


def mask_array(x, name="mask", true="takes part"):
    """The mask for the native module: bool as bytes, float64 and bfloat16 as float32, others unchanged.

    `true` says in errors what a True does.
    """
    array = host_array(x, name)
    if array.dtype == np.bool_:
        return array.view(np.uint8)
    if array.dtype == _FLOAT32 or array.dtype == _FLOAT16:
        return array
    if array.dtype == np.float64 or is_bfloat16(array.dtype):
        return float32_of(array)
    raise TypeError(f"{name} is {array.dtype} but must be bool (True {true}) or of floating point (added)")


def per_head(x, name, each="head"):
    """One float32 for each head, or for each `each`."""
    array = host_array(x, name)
    if array.dtype.kind not in "fiu" and not is_bfloat16(array.dtype):
        raise TypeError(f"{name} is {array.dtype} but must hold one number for each {each}")
    return float32_of(array)


def per_row(x, name="lse"):
    """The lse that an earlier call returned, or its gradient."""
    array = host_array(x, name)
    if array.dtype != _FLOAT32:
        raise TypeError(f"{name} is {array.dtype} but must be float32, as the lse that attention returned")
    return array


def kv_lengths(x, lead, name="kv_lengths"):
    """One int32 for each batch entry. The library clamps it to the number of keys."""
    array = host_array(x, name)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} is {array.dtype} but must hold one integer for each batch entry")
    limits = np.iinfo(np.int32)
    return broadcast(array, lead, name).reshape(-1).clip(limits.min, limits.max).astype(np.int32)


def cumulative_integers(x, name):
    """An array of integers, for cumulative_lengths(); None for None."""
    if x is None:
        return None
    array = host_array(x, name)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} is {array.dtype} but must hold integers: where each sequence begins, and where the "
                        "last one ends")
    return array


def cumulative_lengths(array, rows, name):
    """int32: the row at which each packed sequence begins, and the row at which the last one ends."""
    if array.ndim != 1 or array.size == 0:
        raise RuleError(f"{name} has the shape {array.shape} but must have one number for each sequence, and one for "
                        "the end")
    if array[0] != 0 or array[-1] != rows or (array[1:] < array[:-1]).any():
        raise RuleError(f"{name} goes from {array[0]} to {array[-1]} but must begin at 0, never fall, and end at "
                        f"{rows}, the number of rows")
    return array.astype(np.int32)


def broadcast(array, shape, name):
    """numpy.broadcast_to, with a sentence of this package if that fails."""
    if array.shape == shape:
        return array
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise RuleError(f"{name} has the shape {array.shape}, which does not broadcast to {shape}") from None


def leading_shape(query, key, value):
    """The dimensions before (heads, length, dim), broadcast over the three arrays."""
    for name, array in (("query", query), ("key", key), ("value", value)):
        if array.ndim < 2:
            raise RuleError(f"{name} has the shape {array.shape} but must end in (heads, length, dim)")
    lead = query.shape[:-3]
    if key.shape[:-3] == lead and value.shape[:-3] == lead:
        return lead
    try:
        return np.broadcast_shapes(lead, key.shape[:-3], value.shape[:-3])
    except ValueError:
        raise RuleError(
            f"the dimensions before (heads, length, dim) of query {query.shape}, key {key.shape} and value "
            f"{value.shape} do not broadcast"
        ) from None


def batched(array, lead, name):
    """The array as (batch, heads, length, dim): a view if NumPy can make one."""
    if array.ndim == 4 and array.shape[:1] == lead:
        return array
    if array.ndim == 2:
        array = array[np.newaxis]
    inner = array.shape[-3:]
    return broadcast(array, lead + inner, name).reshape((math.prod(lead),) + inner)


def batched_mask(mask, lead, query_heads):
    """The mask as (batch, heads, queries, keys), with size 1 along each dimension that it broadcasts."""
    left_out = len(lead) + 3 - mask.ndim
    if left_out < 0:
        raise RuleError(f"mask of shape {mask.shape} has more dimensions than the scores")
    if left_out > 0 and mask.ndim > 2 and mask.shape[-3] not in (1, query_heads):  # a mask of the batch may be meant
        raise RuleError(
            f"mask of shape {mask.shape} does not broadcast to the scores, because there are {query_heads} query heads; "
            f"a mask of fewer heads, which are read in turn, needs {len(lead) + 3} dimensions"
        )
    mask = mask[(np.newaxis,) * left_out]
    inner = mask.shape[-3:]
    if all(size == 1 for size in mask.shape[:-3]):
        return mask.reshape((1,) + inner)
    if len(lead) == 1:
        return mask
    return broadcast(mask, lead + inner, "mask").reshape((math.prod(lead),) + inner)

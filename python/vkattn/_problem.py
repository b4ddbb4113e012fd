"""From the arguments of a call to a problem of the native module."""
import math
import os

import numpy as np

from . import _arrays, _native
from ._errors import RuleError


class Layout:
    """How results of (batch, heads, length, …) are given back: with the leading dimensions of the arguments."""

    def __init__(self, lead, rank, dtype):
        self.lead = lead  # the dimensions before (heads, length, dim)
        self.rank = rank  # 2: there are no heads either
        self.dtype = dtype  # of the output: the query's

    def restore(self, array):
        if len(self.lead) == 1:
            return array
        if self.rank == 2:
            return array[0, 0]
        return array.reshape(self.lead + array.shape[1:])

    def batched(self, array):
        """The inverse of restore()."""
        if len(self.lead) == 1:
            return array
        if self.rank == 2:
            return array[np.newaxis, np.newaxis]
        return array.reshape((math.prod(self.lead),) + array.shape[len(self.lead):])


def session(device):
    """The open device of a name or number, or of None."""
    return _native.open(device or "")


def seed_of(seed, dropout):
    """64 bits; drawn from the operating system where dropout has none."""
    if seed is not None:
        return seed & 0xFFFFFFFFFFFFFFFF
    return int.from_bytes(os.urandom(8), "little") if dropout else 0


def _require_equal_heads(query, key):
    if query.ndim < 3 or key.ndim < 3 or query.shape[-3] == key.shape[-3]:
        return
    raise RuleError(
        f"query has {query.shape[-3]} heads and key {key.shape[-3]}; give enable_gqa=True to share keys among "
        "groups of query heads"
    )


def score_inputs(mask, *, is_causal, align, scale, window, softcap, alibi, sinks, kv_lengths=None, dropout=0.0,
                 return_lse=False, return_weights=None):
    """(native Options, native ScoreArrays) of a mask with four dimensions and lists."""
    has_slopes = alibi is not None and not isinstance(alibi, bool)
    options = _native.Options(
        is_causal=is_causal, align=align, scale=scale, window=window or (None, None), softcap=softcap or 0.0,
        standard_alibi=alibi is True, dropout=dropout, has_lse=return_lse, weights=return_weights or "",
    )
    arrays = _native.ScoreArrays(
        mask=mask,
        kv_lengths=kv_lengths,
        alibi_slopes=_arrays.per_head(alibi, "alibi") if has_slopes else None,
        sinks=None if sinks is None else _arrays.per_head(sinks, "sinks"),
    )
    return options, arrays


def make(query, key, value, mask, *, is_causal, align, scale, enable_gqa, window, softcap, alibi, sinks, kv_lengths,
         dropout, return_lse, return_weights):
    """(native Problem, Layout)."""
    query, dtype = _arrays.tensor(query, "query")
    key, _ = _arrays.tensor(key, "key")
    value, _ = _arrays.tensor(value, "value")
    lead = _arrays.leading_shape(query, key, value)
    if not enable_gqa:
        _require_equal_heads(query, key)
    options, arrays = score_inputs(
        None if mask is None else _arrays.batched_mask(_arrays.mask_array(mask), lead), is_causal=is_causal,
        align=align, scale=scale, window=window, softcap=softcap, alibi=alibi, sinks=sinks,
        kv_lengths=None if kv_lengths is None else _arrays.kv_lengths(kv_lengths, lead), dropout=dropout,
        return_lse=return_lse, return_weights=return_weights,
    )
    problem = _native.Problem(
        _arrays.batched(query, lead, "query"), _arrays.batched(key, lead, "key"),
        _arrays.batched(value, lead, "value"), arrays, options,
    )
    return problem, Layout(lead, max(query.ndim, key.ndim, value.ndim), dtype)

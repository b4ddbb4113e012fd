"""Turns the arguments of a call into a problem of the native module."""
import math
import os

import numpy as np

from . import _arguments, _arrays, _native
from ._errors import RuleError


class Layout:
    """Gives results of (batch, heads, length, …) the leading dimensions of the arguments."""

    def __init__(self, lead, rank, dtype):
        self.lead = lead  # the dimensions before (heads, length, dim)
        self.rank = rank  # 2: not even heads
        self.dtype = dtype  # of the query and of the output

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
    """The session of the device with this name or number, or of the default device."""
    return _native.open(device or "")


def seed_of(seed, dropout):
    """A seed of 64 bits. The operating system draws it if dropout has none."""
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


def _native_modifier(row, x):
    """The value of a modifier (a row of MODIFIERS) for the native module."""
    if row.is_per_head and not (row.is_flag_too and isinstance(x, bool)):
        return _arrays.per_head(x, row.name)
    return x


def score_options(mask, *, is_causal, align, scale, modifiers, kv_lengths=None, dropout=0.0, return_lse=False,
                  return_weights=None):
    """Makes native ScoreOptions. The mask has four dimensions, and kv_lengths are int32."""
    given = ((row, modifiers[row.name]) for row in _arguments.MODIFIERS)
    return _native.ScoreOptions(
        is_causal=is_causal, align=align, scale=scale, dropout=dropout, has_lse=return_lse,
        weights=return_weights or "", mask=mask, kv_lengths=kv_lengths,
        modifiers={row.name: _native_modifier(row, x) for row, x in given if x is not None},
    )


def make(query, key, value, mask, *, enable_gqa, kv_lengths, **keywords):
    """Makes (native Problem, Layout). The other keywords go to score_options()."""
    query, dtype = _arrays.tensor(query, "query")
    key, _ = _arrays.tensor(key, "key")
    value, _ = _arrays.tensor(value, "value")
    lead = _arrays.leading_shape(query, key, value)
    if not enable_gqa:
        _require_equal_heads(query, key)
    options = score_options(
        None if mask is None else _arrays.batched_mask(_arrays.mask_array(mask), lead),
        kv_lengths=None if kv_lengths is None else _arrays.kv_lengths(kv_lengths, lead), **keywords,
    )
    problem = _native.Problem(
        _arrays.batched(query, lead, "query"), _arrays.batched(key, lead, "key"),
        _arrays.batched(value, lead, "value"), options,
    )
    return problem, Layout(lead, max(query.ndim, key.ndim, value.ndim), dtype)

"""vkattn.Rotary."""
from typing import NamedTuple, Optional, Sequence

import numpy as np

from . import _arguments, _arrays, _native


class Rotary(NamedTuple):
    """Rotary position embedding of queries and keys, for Cache and MultiHeadAttention.

    style           'half-split' rotates dims i and i + dims / 2 together (GPT-NeoX, Llama in Transformers);
                    'interleaved' rotates dims 2i and 2i + 1 (RoFormer, GPT-J)
    dims            rotates the first so many elements of a head; None: all
    base            pair i of a row at position p is rotated by p * position_scale * base^(-2i / dims) radians
    position_scale  above 0 to 1: 1/4 fits four times as many positions into the angles of training
    magnitude       multiplies the rotated elements (YaRN's attention factor)
    frequencies     dims / 2 numbers that replace position_scale * base^(-2i / dims)
    """

    style: str = "half-split"
    dims: Optional[int] = None
    base: float = 10000.0
    position_scale: float = 1.0
    magnitude: float = 1.0
    frequencies: Optional[Sequence[float]] = None


def native(rotary, head_dim):
    """(native Rotary, frequencies), each None if there is none."""
    if rotary is None:
        return None, None
    fields = _arguments.read_fields(rotary, "rotary")
    frequencies = fields.pop("frequencies")
    if fields["dims"] is None:
        fields["dims"] = head_dim
    made = _native.Rotary(**fields, has_frequencies=frequencies is not None)
    return made, None if frequencies is None else _arrays.per_head(frequencies, "rotary.frequencies", "pair of dims")


read = _arguments.instance(Rotary, "as of vkattn.Rotary()")


def same(a, b):
    """True if both rotate rows in the same way; each is a Rotary or None."""
    if a is None or b is None:
        return a is b
    listed = [None if r.frequencies is None else np.asarray(r.frequencies, np.float32).tolist() for r in (a, b)]
    return a[:-1] == b[:-1] and listed[0] == listed[1]

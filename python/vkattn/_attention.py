"""vkattn.attention."""
from . import _arguments, _native, _problem


@_arguments.reads()
def attention(query, key, value, mask=None, *, is_causal=False, align="top-left", scale=None, enable_gqa=False,
              modifiers, kv_lengths=None, dropout=0.0, dropout_seed=None, return_lse=False, return_weights=None,
              device=None, kernel=None):
    """softmax(scale * query @ key^T + mask) @ value, for each head.

    The names and meanings of torch.nn.functional.scaled_dot_product_attention, on NumPy arrays and anything
    with DLPack in host memory:

        query           (..., query_heads, query_length, head_dim)
        key             (..., kv_heads, kv_length, head_dim)
        value           (..., kv_heads, kv_length, value_dim)
        mask            broadcasts to (..., query_heads, query_length, kv_length)
        returns         (..., query_heads, query_length, value_dim), of the query's type

    The dimensions before the heads are batch entries and broadcast; arrays of two dimensions have one head.
    Elements are float32, float16 or bfloat16 (of ml_dtypes), for each of the three; sums are float32. Strides
    may be any: arrays are taken as they lie, but for negative strides and arrays whose memory is more than
    twice their elements, which are copied first. Head dimensions are from 1 to 576.

    mask            bool: True takes part; or of floating point: added to the scores, -inf hides.
    is_causal       query i sees the keys j <= i + offset, with the offset that `align` names.
    align           'top-left' (offset 0, as in PyTorch), 'bottom-right' (kv_length - query_length: the last
                    query sees all keys) or a key position; for is_causal, window and alibi.
    scale           multiplies the scores; 1 / sqrt(head_dim) where it is None.
    enable_gqa      there may be fewer key heads: query head h takes key head h // (query_heads / kv_heads).
    window          (left, right): query i sees the keys i + offset - left to i + offset + right; None or
                    -1: no bound.
    softcap         scores become softcap * tanh(scores / softcap), before the mask.
    alibi           True: slope * |i + offset - j| is subtracted, with the standard slopes; or the slopes,
                    (query_heads,).
    sinks           (query_heads,): a logit in each softmax that has no value.
    kv_lengths      (...): the keys of each batch entry; those from there on are hidden.
    dropout         the share of probabilities that is dropped; the others grow by 1 / (1 - dropout). It is
                    rounded to float32 before that. 1 gives zeros.
    dropout_seed    an integer: calls with the same one drop the same. None: a new one for each call.
    return_lse      also return the log-sum-exp of each row, float32 (..., query_heads, query_length).
    return_weights  also return the weights of a stage, float32 (..., query_heads, query_length, kv_length):
                    'scores' (scale * query @ key^T), 'softcap' (after it), 'masked' (after mask and alibi) or
                    'probabilities' (after softmax, before dropout). The only thing here whose memory grows with
                    query_length * kv_length.
    device          a Device of devices(), its number or a part of its name. None: VKATTN_DEVICE, or the best.
    kernel          use this one of lane, tile, decode, matrix and matrix2 or fail with its reason.

    Returns the output, or (output, lse), (output, weights) or (output, lse, weights).

    Where it differs from PyTorch: mask and is_causal may both be given, and both hold; a row that sees no key
    is 0; masks of float64 are taken, as float32, and only -inf hides: finite numbers beyond float32 become its
    largest; dropout draws bits of its own.

    Plans, which hold compiled shaders, are kept for the last 32 problems that differ in a shape, a stride, a
    type or an option. Other threads run while the device works, and calls of theirs on the same device wait;
    an interrupt from the keyboard comes when the call ends.

    Raises vkattn.Error with a sentence that has the numbers (a ValueError too where a rule is broken), and
    TypeError for arguments and elements of another type.

        >>> import numpy, vkattn
        >>> q = k = v = numpy.random.rand(1, 8, 512, 64).astype("float32")
        >>> vkattn.attention(q, k, v, is_causal=True).shape
        (1, 8, 512, 64)
    """
    problem, layout = _problem.make(
        query, key, value, mask, is_causal=is_causal, align=align, scale=scale, enable_gqa=enable_gqa,
        modifiers=modifiers, kv_lengths=kv_lengths, dropout=dropout, return_lse=return_lse,
        return_weights=return_weights,
    )
    output, lse, weights = _native.attention(
        _problem.session(device), problem, kernel or "", _problem.seed_of(dropout_seed, dropout)
    )
    output = layout.restore(output.view(layout.dtype))
    if lse is None and weights is None:
        return output
    extra = [layout.restore(array) for array in (lse, weights) if array is not None]
    return (output, *extra)

"""vkattn.show."""
import io
import math

from . import _arguments, _arrays
from ._errors import RuleError


@_arguments.reads()
def show(weights, tokens=None, key_tokens=None):
    """A matplotlib figure of weights: for each head a heat map of queries (down) and keys (right).

    weights      (query_length, kv_length), (heads, …) or (1, heads, …), such as the weights of
                 attention(…, return_weights='probabilities')
    tokens       the words of the queries, and of the keys if there are no key_tokens

    Needs matplotlib. A notebook shows the figure by itself; elsewhere call figure.savefig('heads.png').

        >>> _, weights = vkattn.attention(q, k, v, return_weights="probabilities")
        >>> vkattn.show(weights, "the cat sat".split()).savefig("heads.png")
    """
    heads = _arrays.host_array(weights, "weights")
    if heads.ndim == 4 and heads.shape[0] == 1:
        heads = heads[0]
    if heads.ndim == 2:
        heads = heads[None]
    if heads.ndim != 3 or not heads.size:
        raise RuleError(f"weights has the shape {heads.shape} but must be (heads, queries, keys), of one batch entry")
    key_tokens = tokens if key_tokens is None else key_tokens
    for name, words, size in (("tokens", tokens, heads.shape[1]), ("key_tokens", key_tokens, heads.shape[2])):
        if words is not None and len(words) != size:
            raise RuleError(f"{name} has {len(words)} words for {size} {'queries' if name == 'tokens' else 'keys'}")
    return _draw(_figure_class(), heads.astype(float), tokens, key_tokens)


def _figure_class():
    """A class of matplotlib figures that a notebook draws by itself, without pyplot and its global state."""
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self):
            picture = io.BytesIO()
            self.savefig(picture, format="png")
            return picture.getvalue()

    return Shown


def _draw(figure_class, heads, tokens, key_tokens):
    columns = math.ceil(math.sqrt(len(heads)))
    rows = math.ceil(len(heads) / columns)
    figure = figure_class(figsize=(1 + 3 * columns, 3 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for head, axis in enumerate(axes):
        if head >= len(heads):
            axis.set_axis_off()
            continue
        image = axis.imshow(heads[head], cmap="viridis", vmin=0, vmax=max(float(heads.max()), 1e-9), aspect="auto")
        axis.set_title(f"head {head}", fontsize="small")
        if tokens is not None:
            axis.set_yticks(range(len(tokens)), tokens, fontsize="x-small")
        if key_tokens is not None:
            axis.set_xticks(range(len(key_tokens)), key_tokens, fontsize="x-small", rotation=90)
    figure.colorbar(image, ax=figure.axes, shrink=0.8, label="weight")
    return figure

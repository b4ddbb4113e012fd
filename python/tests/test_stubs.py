"""Compares the type stubs with the package: names, order and defaults of parameters from inspect.signature()."""
import ast
import inspect
import pathlib

import pytest

import vkattn
from vkattn import _arguments

PACKAGE = pathlib.Path(vkattn.__file__).parent


def definitions(tree):
    """Functions, methods and classes by name: 'function', 'Class' and 'Class.method'. An overloaded name has several."""
    found = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append((node.name, node))
        if isinstance(node, ast.ClassDef):
            found += [(f"{node.name}.{name}", inner) for name, inner in definitions(node)]
    return found


def written(function):
    """(name, kind, default) of each parameter in a function's source. The default is None if there is none."""
    given = function.args
    assert given.vararg is None, function.name
    positional = given.posonlyargs + given.args
    defaults = [None] * (len(positional) - len(given.defaults)) + given.defaults
    found = [(x.arg, "positional", d and ast.unparse(d)) for x, d in zip(positional, defaults)]
    found += [(x.arg, "keyword", d and ast.unparse(d)) for x, d in zip(given.kwonlyargs, given.kw_defaults)]
    return found + ([(given.kwarg.arg, "keyword", None)] if given.kwarg else [])


def fields(node):
    """(name, kind, default) of each field in a NamedTuple's source."""
    return [(x.target.id, "positional", x.value and ast.unparse(x.value)) for x in node.body
            if isinstance(x, ast.AnnAssign)]


def callable_with(function):
    """(name, kind, default) of each parameter of a function, method or class."""
    kinds = {inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional", inspect.Parameter.KEYWORD_ONLY: "keyword"}
    return [(p.name, kinds.get(p.kind, p.kind), None if p.default is p.empty else repr(p.default))
            for p in inspect.signature(function).parameters.values()]


def of_package(name):
    """The object with that name."""
    owner, _, method = name.partition(".")
    public = getattr(vkattn, owner)
    public = vars(public)[method] if method else public
    return public.fget if isinstance(public, property) else public


def stubs(name):
    return definitions(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))


def require_same(name, node, expected):
    """An overload may leave a default out, for callers that give the argument. Keywords that are aliases stand last."""
    stubbed = written(node)
    by_name, group = {x[0]: x for x in expected}, expected[-1:] if node.args.kwarg else []
    aliases = [(alias, "keyword", by_name[own][2]) for alias, own in _arguments.ALIASES.items()
               if own in by_name and alias not in by_name]
    expected = expected[:len(expected) - len(group)] + aliases + group
    assert [x[:2] for x in stubbed] == [x[:2] for x in expected], name
    overloaded = any(ast.unparse(x) == "overload" for x in node.decorator_list)
    for (parameter, _, in_stub), (_, _, in_source) in zip(stubbed, expected):
        assert in_stub == in_source or (overloaded and in_stub is None), f"{name}({parameter})"


def test_stubs_are_as_what_they_are_of():
    compared = 0
    for name, node in stubs("__init__.pyi"):
        if name.split(".")[0] in ("Device", "_DLPack", "_Modifiers"):  # classes of the native module, and of the stub itself
            continue
        public = of_package(name)
        compared += 1
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            if bases == ["NamedTuple"]:
                assert public.__bases__ == (tuple,) and fields(node) == callable_with(public), name
            else:
                assert (bases or ["object"]) == [base.__name__ for base in public.__bases__], name
            continue
        expected = callable_with(public)
        if name == "MultiHeadAttention.make_cache":  # its **keywords are keywords of Cache that the layer does not set
            assert expected.pop() == ("keywords", inspect.Parameter.VAR_KEYWORD, None)
            expected += [x for x in callable_with(vkattn.Cache)
                         if x[1] == "keyword" and x[0] not in ("rotary", "device")]
        require_same(name, node, expected)
    assert compared > 30


def test_stubs_of_torch():
    """Compares with the source text, because PyTorch may be missing. A group of keywords is one parameter in both."""
    functions = {}
    for file in (PACKAGE / "torch").glob("_*.py"):
        functions.update(definitions(ast.parse(file.read_text(encoding="utf-8"))))
    stubbed = stubs("torch/__init__.pyi")
    public = ast.parse((PACKAGE / "torch/__init__.py").read_text(encoding="utf-8")).body[-1].value
    assert {name for name, _ in stubbed} == set(ast.literal_eval(public))
    for name, node in stubbed:
        expected = written(functions[name])
        if node.args.kwarg:  # stands last in a stub
            expected.sort(key=lambda parameter: parameter[0] == node.args.kwarg.arg)
        require_same(name, node, expected)


def test_the_stubs_group_of_modifiers():
    group = dict(stubs("__init__.pyi"))["_Modifiers"]
    assert [x.target.id for x in group.body] == [row.name for row in _arguments.MODIFIERS]


def test_stubs_have_every_public_name():
    stubbed = {name for name, _ in stubs("__init__.pyi")}
    for name in vkattn.__all__:
        assert name in stubbed, f"__init__.pyi lacks {name}"
        public = getattr(vkattn, name)
        assert public.__doc__
        for method in vars(public) if isinstance(public, type) else ():
            if not method.startswith("_") and callable(getattr(public, method)) and not isinstance(public, tuple):
                assert f"{name}.{method}" in stubbed or issubclass(public, (tuple, Exception)), f"lacks {name}.{method}"
    assert {name.split(".")[1] for name, _ in stubs("__init__.pyi") if name.startswith("Device.")} == {
        name for name in vars(vkattn.Device) if not name.startswith("_")}

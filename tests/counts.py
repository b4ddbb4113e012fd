#!/usr/bin/python3
"""Counts the files of the product that know a fact, and fails if a count differs from its limit in the table FACTS.

    tests/counts.py                  prints the counts; exit code 1 if one is not its limit, or docs/architecture.md has another
    tests/counts.py --files [FACT…]  also prints the files that are counted, and those that name it in comments only

A new feature, kernel, operation or option takes about as many files as an existing one. So a limit only falls. A change that
would add a file to a count needs a better place for its code. A change that removes a file lowers the limit here and in
docs/architecture.md.

The product is the public headers, the library, the shaders, the tool with the laboratory that is linked into it, the Python
package, and the files that build these. A file knows a fact if its path, its code or its strings name it, in any spelling: softcap,
kSoftcap, VKATTN_SPEC_HAS_SOFTCAP, "--softcap". A word inside another word is not counted, and neither are comments and
docstrings: nothing breaks if one of them is forgotten.
"""
import argparse
import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCT = ("CMakeLists.txt", "cmake", "include", "src", "shaders", "bench", "cli", "python")
# Tests, and a program that measures the library and is linked into nothing.
NOT_PRODUCT = ("python/tests", "bench/overhead")
SUFFIXES = {".h": "c", ".hpp": "c", ".cpp": "c", ".def": "c", ".comp": "c", ".glsl": "c", ".py": "python", ".pyi": "python",
            ".cmake": "cmake", ".txt": "cmake", ".in": "cmake", ".map": "c"}
DOCUMENT = "docs/architecture.md"


class Fact(NamedTuple):
    """A counted fact. `others` matches other things whose names contain the word. They are not searched in Python."""

    name: str
    limit: int
    word: str
    others: tuple = ()


# The aims are 12 (softcap), 20 (sinks), 24 (matrix2), 8 (merge), 8 (kv_splits) and 3 (a field of the C interface).
FACTS = (
    # A score modifier without a tensor.
    Fact("softcap", 24, r"soft_?cap(?:s|ped|ping)?"),
    # A score modifier with a tensor, which has a gradient.
    Fact("sinks", 36, r"d?sinks?"),
    # A kernel. Nothing else needs its extension, VK_NV_cooperative_matrix2, so a file that names the extension knows the kernel.
    Fact("matrix2", 27, r"matrix_?2"),
    # An operation with a plan of its own.
    Fact("merge", 14, r"merges?", (
        r"\w*DECODE_MERGE_\w+", r"\bVKATTN_MERGE_ROWS\b", r"\bkMerge(?:Rows|Stage4|Bytes)\b",  # the groups of the kernel decode
        r"\bmerge_(?:rows?|bytes|row_bytes|stage_bytes)\b", r"\bmerged_maximum\b",
        r"\bk(?:Loop|Selection)Merge\b", r"\bkMergeWords\b", r"--merge-blocks\b",  # SPIR-V's blocks
        r"\bvkMergePipelineCaches\b", r"\bclass Merge\b", r"\bMerge&&",  # pipeline caches
        r"\bmerge_tuning\b",  # tuning files
        r'(?<![/"<])\bmerge\b(?!/|\.h)',  # functions and variables of the lines above
    )),
    # An option of a plan. Every plan has a number of parts (kv_splits in the shaders' parameters, at most kMaxKvSplits), even
    # if nobody asked for one.
    Fact("kv_splits", 14, r"kv[_-]?splits", (r"\bkMaxKvSplits\b", r"\b(?:p|params)\.kv_splits\b", r"\buint kv_splits;")),
    # A field of the C interface. Two structures have it, with a default, and C++ and Python use another name.
    Fact("rotary_position_scale", 3, r"rotary_position_scale"),
)

# Strings and comments. The first characters of a match tell which it is.
TOKENS = {
    "c": re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/', re.DOTALL),
    "python": re.compile(r'""".*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*', re.DOTALL),
    "cmake": re.compile(r'"(?:\\.|[^"\\])*"|#[^\n]*', re.DOTALL),
}
COMMENTS = {"c": ("//", "/*"), "python": ("#", '"""'), "cmake": ("#",)}


def without_comments(text, language):
    return TOKENS[language].sub(lambda token: " " if token[0].startswith(COMMENTS[language]) else token[0], text)


def names(fact, code):
    """Whether the text names the fact."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", code).lower()
    return re.search(rf"(?<![a-z0-9]){fact.word}(?![a-z0-9])", parts) is not None


def without_others(fact, code, language):
    if language != "python" and fact.others:
        return re.sub("|".join(fact.others), " ", code)
    return code


class Source(NamedTuple):
    name: str
    language: str
    text: str
    code: str


def knows(fact, source):
    return names(fact, source.name) or names(fact, without_others(fact, source.code, source.language))


def product():
    sources = []
    for top in PRODUCT:
        paths = [ROOT / top] if (ROOT / top).is_file() else sorted((ROOT / top).rglob("*"))
        for path in paths:
            name = path.relative_to(ROOT).as_posix()
            language = SUFFIXES.get(path.suffix)
            if language is None or name.startswith(tuple(f"{folder}/" for folder in NOT_PRODUCT)):
                continue
            text = path.read_text(encoding="utf-8")
            sources.append(Source(name, language, text, without_comments(text, language)))
    return sources


# Text, language, and the facts that the text names. The patterns above must pass these examples before anything is counted.
EXAMPLES = (
    ("kHasSoftcap", "c", "softcap"), ("VKATTN_SPEC_HAS_SOFTCAP", "c", "softcap"), ("SoftCap", "c", "softcap"),
    ('option("--softcap")', "c", "softcap"), ("double softcap;  // sinks", "c", "softcap"),
    ("softcapsule", "c", ""), ("// softcap", "c", ""), ("/* softcap\n */", "c", ""),
    ("'\"' // softcap", "c", ""), ('"//" softcap', "c", "softcap"), ('"""softcap"""  # sinks', "python", ""),
    ("has_grad_sinks", "c", "sinks"), ("sink_of(head)", "c", "sinks"), ("kHasGradSinks", "c", "sinks"), ("syncs", "c", ""),
    ("VkPhysicalDeviceCooperativeMatrix2FeaturesNV", "c", "matrix2"), ("COOPERATIVE_MATRIX_2", "c", "matrix2"),
    ("cooperative_matrix", "c", ""), ("matrix20", "c", ""), ("set(kernels matrix matrix2)", "cmake", "matrix2"),
    ("MergeDesc desc;", "c", "merge"), ("vkattn_plan_create_merge(", "c", "merge"),
    ("#include <vkattn/merge.hpp>", "c", "merge"), ('#include "merge/x.hpp"', "c", "merge"), ("merged_lse", "c", ""),
    ("block.merge != 0", "c", ""), ("VKATTN_SPEC_DECODE_MERGE_ROWS", "c", ""), ("def merge(parts):", "python", "merge"),
    ("options.kv_splits", "c", "kv_splits"), ('"--kv-splits"', "c", "kv_splits"), ("params.kv_splits", "c", ""),
    ("kMaxKvSplits", "c", ""), ("KvSplit split;", "c", ""),
    ("c.rotary_position_scale", "c", "rotary_position_scale"), ("rotary.position_scale", "c", ""),
)


def faults_of_words(sources):
    """Examples that are counted wrongly, and patterns of `others` that match nothing any more."""
    for text, language, expected in EXAMPLES:
        code = without_comments(text, language)
        found = " ".join(fact.name for fact in FACTS if names(fact, without_others(fact, code, language)))
        if found != expected:
            yield f"{text!r} names '{expected}', but '{found}' was found; mend the words in tests/counts.py"
    for fact in FACTS:
        for other in fact.others:
            if not any(re.search(other, source.code) for source in sources if source.language != "python"):
                yield f"{fact.name}: nothing is called {other} any more; remove it from tests/counts.py"


def faults_of_count(fact, count, document):
    """Sentences about counts that differ from the limit or from the document."""
    if count > fact.limit:
        yield (f"{fact.name}: {count} files know it, the limit is {fact.limit}; let a table or a file that knows it already "
               f"say it (tests/counts.py --files {fact.name} prints them)")
    elif count < fact.limit:
        yield f"{fact.name}: {count} files know it, the limit is {fact.limit}; lower it to {count} in tests/counts.py"
    told = re.search(rf"^\|[^|]*`{fact.name}`[^|]*\| *(\d+) *\|", document, re.MULTILINE)
    if told is None or int(told[1]) != fact.limit:
        yield f"{fact.name}: {DOCUMENT} tells {told[1] if told else 'nothing'}; write {fact.limit} there"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", nargs="*", metavar="FACT", choices=[fact.name for fact in FACTS],
                        help="print the files that know these facts, or all")
    shown = parser.parse_args().files
    sources = product()
    document = (ROOT / DOCUMENT).read_text(encoding="utf-8")
    faults = list(faults_of_words(sources))
    for fact in FACTS:
        knowing = [source.name for source in sources if knows(fact, source)]
        print(f"{fact.name}: {len(knowing)} files of {len(sources)}, limit {fact.limit}")
        if shown is not None and (not shown or fact.name in shown):
            print("".join(f"  {name}\n" for name in knowing), end="")
            told = [source.name for source in sources if source.name not in knowing and
                    names(fact, without_others(fact, source.text, source.language))]
            print("".join(f"  in comments only: {name}\n" for name in told), end="")
        faults.extend(faults_of_count(fact, len(knowing), document))
    for fault in faults:
        print(f"FAILED {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

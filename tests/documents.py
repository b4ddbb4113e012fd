#!/usr/bin/python3
"""Checks the documents: links lead to existing files, headings and functions, names of the interface exist, and README.md is
short and has no figure of its own, and all places tell the same version.

    tests/documents.py    exit code 1 if a link leads nowhere or to a file without the name, if a document names something of
                          vkattn that is nowhere in the sources, if docs/embedding.md does not tell how a function of C is called
                          in C++, if README.md is too long, or if no line of docs/performance.md has all numbers of a row of its
                          table of speed
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MOST_LINES = 130
SPEED = "## How fast it is"
SOURCES = (".ci", "bench", "cli", "cmake", "examples", "include", "packaging", "python", "scripts", "shaders", "src", "tests")
HISTORY = ROOT / "CHANGELOG.md"  # may name what is no more
THROWN_AWAY = "scale_rows"  # the operation that docs/architecture.md has as an example


def without_code(text):
    """The text without blocks of code, because brackets in code are not links."""
    return re.sub(r"^```.*?^```$|^    .*?$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(path):
    """The anchors that GitHub makes from headings."""
    headings = re.findall(r"^#+ (.*)$", without_code(path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(text):
    return re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<img src="([^"]+)"', text)


def faults_of_links(path):
    for link in links(without_code(path.read_text(encoding="utf-8"))):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists():
            yield f"{path.relative_to(ROOT)}: {link}: there is no such file"
        elif anchor and anchor not in anchors(target):
            yield f"{path.relative_to(ROOT)}: {link}: there is no such heading"


def faults_of_names(path):
    """A link such as [`finish_score()`](../shaders/lib/scores.glsl) must lead to a file that defines the name."""
    found = re.findall(r"\[`(\w+)(\(\))?`\]\(([^)#]+)\)", without_code(path.read_text(encoding="utf-8")))
    for name, call, link in found:
        target = path.parent / link
        word = " " + name + ("(" if call else "")
        if target.is_file() and word not in target.read_text(encoding="utf-8"):
            yield f"{path.relative_to(ROOT)}: {link} has no{word}"


def source_text():
    """Of all files that are no documents: whatever a document names must be somewhere in it."""
    files = [ROOT / "CMakeLists.txt", *(path for folder in SOURCES for path in (ROOT / folder).rglob("*"))]
    known = {"", ".c", ".cmake", ".comp", ".cpp", ".def", ".glsl", ".h", ".hpp", ".in", ".json", ".map", ".py", ".pyi", ".txt"}
    return "\n".join(path.read_text(encoding="utf-8") for path in files if path.is_file() and path.suffix in known)


def header_text(pattern):
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "include/vkattn").glob(pattern)))


def faults_of_interface(path, names, types, members):
    """`vkattn_name` and `VKATTN_NAME` are in the sources (NAME_ may be the beginning of some), and so is `Type::member`."""
    text = path.read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r"\b(?:vkattn|VKATTN)_\w+", text)) - names):
        if THROWN_AWAY not in name and not (name.endswith("_") and any(known.startswith(name) for known in names)):
            yield f"{path.relative_to(ROOT)}: nothing is called {name}"
    for type_name, member in sorted(set(re.findall(r"\b([A-Z]\w+)::(\w+)", text))):
        if type_name in types and member not in members:
            yield f"{path.relative_to(ROOT)}: {type_name} has no {member}"


def snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def faults_of_c_names(cpp):
    """Each function of C is that of a C++ member or function by the rule of "Names in C", or is in that section's table."""
    bodies = re.findall(r"^(?:class|struct) (?:\[\[nodiscard\]\] )?(\w+)[^;{]*\{(.*?)^\};", cpp, re.MULTILINE | re.DOTALL)
    ruled = {f"vkattn_{snake(name)}_{member}" for name, body in bodies for member in re.findall(r"(\w+)\(", body)}
    ruled |= {f"vkattn_{name}" for name in re.findall(r"\b(\w+)\(", cpp)}
    section = (ROOT / "docs/embedding.md").read_text(encoding="utf-8").partition("### Names in C\n")[2].partition("\n## ")[0]
    for name in sorted(set(re.findall(r"VKATTN_API[^;(]*?(vkattn_\w+)\(", header_text("c/*.h")))):
        of_each_kind = re.match(r"vkattn_(?:plan_(?:create|get|key)|query_kernels|supports)_|.*_(?:create|destroy|release|retain)$", name)
        if name not in ruled and not of_each_kind and f"`{name}`" not in section:
            yield f"docs/embedding.md: 'Names in C' does not tell what {name} is in C++"


def numbers(text):
    return re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\d)", text)


def speed_rows(readme):
    """The cells after the problem, for each row that has times."""
    table = readme.partition(SPEED)[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")]
    return [row[1:] for row in cells if numbers(row[1])]


def faults_of_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = len(readme.splitlines())
    if lines > MOST_LINES:
        yield f"README.md has {lines} lines, at most {MOST_LINES} are allowed; docs/guide.md and docs/tool.md have room"
    rows = speed_rows(readme)
    if not rows:
        yield f"README.md has no table of times under '{SPEED}'"
    measured = [set(numbers(line)) for line in (ROOT / "docs/performance.md").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        told = {number for cell in row for number in numbers(cell)}
        if not any(told <= line for line in measured):
            yield f"README.md: {' | '.join(row)}: no line of docs/performance.md has these numbers"


def versions():
    """Each place that tells the version, and what it tells."""
    patterns = {"CMakeLists.txt": r"project\(vkattn VERSION ([\d.]+)", "README.md": r"^Version ([\d.]+)", "CHANGELOG.md": r"^## ([\d.]+)",
                "packaging/vcpkg/vcpkg.json": r'"version": "([\d.]+)"', "packaging/conan/conanfile.py": r'version = "([\d.]+)"',
                "include/vkattn/c/result.h": r"#define VKATTN_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)"}
    for place, pattern in patterns.items():
        found = re.findall(pattern, (ROOT / place).read_text(encoding="utf-8"), re.MULTILINE)
        yield place, ".".join(found) if place.endswith(".h") else found[0] if found else "none"


def main():
    faults = [fault for path in DOCUMENTS for find in (faults_of_links, faults_of_names) for fault in find(path)]
    cpp = header_text("*.hpp")
    names = set(re.findall(r"\b(?:vkattn|VKATTN)_\w+", source_text()))
    types, members = set(re.findall(r"\b(?:class|struct) (\w+)", cpp)), set(re.findall(r"\w+", cpp))
    for path in DOCUMENTS:
        if path != HISTORY:
            faults += faults_of_interface(path, names, types, members)
    faults += faults_of_c_names(cpp)
    faults += faults_of_readme()
    told = dict(versions())
    if len(set(told.values())) != 1:
        faults.append("different versions: " + ", ".join(f"{place} {version}" for place, version in told.items()))
    for fault in faults:
        print(f"FAILED {fault}", file=sys.stderr)
    print(f"{len(DOCUMENTS)} documents, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

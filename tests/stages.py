#!/usr/bin/python3
"""Reads the table of CI's stages, tests/stages.txt: prints it, makes filters from it, and checks that every test is in a stage.

    tests/stages.py                          checks the table itself, docs/testing.md and .ci/run
    tests/stages.py --build DIR --ctest CTEST   also compares the table with a build's tests and gtest suites, both ways
    tests/stages.py --list                   prints the stages and the number of their rows
    tests/stages.py --markdown               prints the stages as docs/testing.md shows them
    tests/stages.py --filter WORD [KERNEL…]  prints gtest's filter for the lines with the word, for their kernels or for these
"""
import argparse
import collections
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/stages.txt"
DOCUMENT = ROOT / "docs/testing.md"
BEGIN, END = "<!-- tests/stages.py --markdown -->\n", "<!-- end -->\n"
BY_HAND = ("limits", "full")
ROW_STAGES = ("test", "sanitize", "validate", "portability", *BY_HAND)
LINE_WORDS = ("sanitize", "assisted")


class Step(NamedTuple):
    stage: str
    name: str
    what: str


class Line(NamedTuple):
    """Suites, Suite.Test or pytest files, and their words, each with its kernels if it names some: {"sanitize": ["lane"]}."""

    names: tuple
    words: dict


class Row(NamedTuple):
    name: str
    stages: tuple
    lines: list


class Table(NamedTuple):
    steps: list
    rows: dict
    faults: list


def parse_line(words):
    own = {}
    for word in words:
        name, _, kernels = word.partition(":")
        if name in LINE_WORDS:
            own[name] = kernels.split(",") if kernels else []
    names = tuple(word for word in words if word.partition(":")[0] not in LINE_WORDS)
    return Line(names, own)


def parse(text):
    steps, rows, faults = [], {}, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        where = f"tests/stages.txt:{number}"
        if re.search(r"[;\[\]]", line):
            faults.append(f"{where}: CMake reads no ; and no brackets; write it without")
        words = line.partition("#")[0].split()
        if words[0] == "stage" and line.startswith("stage "):
            steps.append(Step(*line.split(None, 3)[1:]))
        elif line.startswith(" "):
            if rows:
                list(rows.values())[-1].lines.append(parse_line(words))
            else:
                faults.append(f"{where}: it stands under no row")
        else:
            name, stages = words[0], tuple(words[1:])
            faults += [f"{where}: '{stage}' is no stage; they are {', '.join(ROW_STAGES)}" for stage in stages
                       if stage not in ROW_STAGES]
            if not stages:
                faults.append(f"{where}: {name} is in no stage; give it one of {', '.join(ROW_STAGES)}")
            if name in rows:
                faults.append(f"{where}: {name} has two rows; remove one")
            rows[name] = Row(name, stages, [])
    return Table(steps, rows, faults)


def pattern(name, kernel=""):
    """gtest's pattern for a suite or Suite.Test, for one kernel or for all, as cmake/TestStages.cmake makes it."""
    if "." not in name:
        return f"{name}.*/{kernel}" if kernel else f"{name}.*"
    return f"{name}/{kernel or '*'}" if "/" in name else name


def word_patterns(table, word, kernels=()):
    for row in table.rows.values():
        for line in row.lines:
            if word in line.words:
                for kernel in (kernels or line.words[word]) if line.words[word] else [""]:
                    yield from (pattern(name, kernel) for name in line.names)


def matches(name, test):
    return fnmatch.fnmatchcase(test, pattern(name)) or name == test


def faults_of_table(table):
    yield from table.faults
    used = collections.Counter(stage for row in table.rows.values() for stage in row.stages)
    for stage in ROW_STAGES:
        if not used[stage]:
            yield f"the stage '{stage}' has no test; give it a row, or remove it from tests/stages.py"
    for word in LINE_WORDS:
        if not list(word_patterns(table, word)):
            yield f"no line has the word '{word}'; give one to the suites that run so"
    in_steps = {step.stage for step in table.steps}
    for stage in set(ROW_STAGES) - set(BY_HAND) - in_steps:
        yield f"no line 'stage {stage} …' says what it is"
    script = ROOT / ".ci/run"
    if not script.exists():  # the source archive has no CI
        return
    for step in table.steps:
        if f"\nstep_{step.name}() " not in script.read_text(encoding="utf-8"):
            yield f".ci/run has no function step_{step.name}, which tests/stages.txt names"


def row_of(table, test):
    """The row of a CTest test. A row may be divided into NAME.1, NAME.2, or NAME.KERNEL."""
    return table.rows.get(test["name"]) or table.rows.get(test["name"].rpartition(".")[0])


def suites_of(program):
    """Each test of a gtest program, as Suite.Test."""
    text = subprocess.run([program, "--gtest_list_tests"], check=True, text=True, stdout=subprocess.PIPE).stdout
    suite = None
    for line in text.splitlines():
        line = line.partition("#")[0].rstrip()
        if re.fullmatch(r"\S+\.", line):
            suite = line
        elif suite and line.startswith("  "):
            yield suite + line.strip()


def faults_of_tests(table, tests, left_out):
    """CTest tests without a stage or with labels that differ from their row, and rows without a test that are not left out."""
    found = set()
    for test in tests:
        row = row_of(table, test)
        labels = next((entry["value"] for entry in test.get("properties", []) if entry["name"] == "LABELS"), [])
        stages = [label for label in labels if label in ROW_STAGES]
        if row is None or not stages:
            yield f"the CTest test {test['name']} is in no stage; add its row to tests/stages.txt"
        elif sorted(stages) != sorted(row.stages):
            yield f"{test['name']} has the labels {stages}, its row {list(row.stages)}; configure the build again"
        if row is not None:
            found.add(row.name)
    for name in table.rows:
        if name not in found and not any(fnmatch.fnmatchcase(name, gone) for gone in left_out):
            yield (f"{name} of tests/stages.txt is no CTest test of this build, and nothing says why; rename or remove the row, or "
                   "say it with vkattn_leave_out_tests()")


def faults_of_program(rows, tests, left_out):
    """Tests of a gtest program that are in no row or in two, and lines under its rows that name no test."""
    told = set()
    for test in tests:
        suite = test.partition(".")[0]
        whole, alone = [], []
        for row in rows:
            names = [name for line in row.lines for name in line.names]
            whole += [row.name] if suite in names else []
            alone += [row.name] if any("." in name and matches(name, test) for name in names) else []
        homes = alone or whole
        if len(homes) != 1 and (suite, *homes) not in told:  # once for each suite
            told.add((suite, *homes))
            yield (f"{test} is in {'no row' if not homes else ' and '.join(homes)}; write its suite under one row of "
                   "tests/stages.txt")
    for row in rows:
        for name in (name for line in row.lines for name in line.names):
            if not any(matches(name, test) for test in tests) and not any(fnmatch.fnmatchcase(name, gone) for gone in left_out):
                yield f"{name} under {row.name} of tests/stages.txt is no test of its program; rename or remove it"


def faults_of_kernels(rows, tests):
    for row in rows:
        for line in row.lines:
            for kernel in sorted({kernel for kernels in line.words.values() for kernel in kernels}):
                for name in line.names:
                    if not any(fnmatch.fnmatchcase(test, pattern(name, kernel)) for test in tests):
                        yield f"{name} under {row.name} of tests/stages.txt has no test for the kernel '{kernel}'"


def faults_of_build(table, build, ctest):
    listed = subprocess.run([ctest, "--test-dir", str(build), "--show-only=json-v1"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    tests = json.loads(listed)["tests"]
    left_out = [line.split()[0] for line in (build / "tests_left_out.txt").read_text(encoding="utf-8").splitlines()]
    yield from faults_of_tests(table, tests, left_out)
    programs = collections.defaultdict(dict)
    for test in tests:
        row = row_of(table, test)
        if row is None or "full" in row.stages or not row.lines or row.name.startswith("python"):
            continue
        if not test.get("command"):
            yield f"the program of {test['name']} is not built; build it first"
        else:
            programs[test["command"][0]][row.name] = row
    for program, rows in programs.items():
        names = list(suites_of(program))
        print(f"{pathlib.Path(program).name}: {len(names)} tests in {len(rows)} rows")
        yield from faults_of_program(rows.values(), names, left_out)
        yield from faults_of_kernels(rows.values(), names)


def faults_of_python(table):
    files = sorted(path.stem for path in (ROOT / "python/tests").glob("test_*.py"))
    rows = [row for row in table.rows.values() if row.name.startswith("python")]
    named = [name for row in rows for line in row.lines for name in line.names]
    for name in sorted(set(files) ^ set(named)):
        yield (f"python/tests/{name}.py is in no stage; write it under a row 'python' of tests/stages.txt" if name in files else
               f"{name} of tests/stages.txt is no file of python/tests; rename or remove it")


def markdown(table):
    lines = ["| Stage | Step | What runs |", "| --- | --- | --- |"]
    lines += [f"| `{step.stage}` | `{step.name}` | {step.what} |" for step in table.steps]
    return "".join(f"{line}\n" for line in lines)


def faults_of_document(table):
    text = DOCUMENT.read_text(encoding="utf-8")
    if text.partition(BEGIN)[2].partition(END)[0] != markdown(table):
        yield "docs/testing.md has another table of stages; put there what tests/stages.py --markdown prints"


def list_stages(table):
    for step in table.steps:
        print(f"{step.stage:12} {step.name:12} {step.what}")
    counted = collections.Counter(stage for row in table.rows.values() for stage in row.stages)
    print(f"tests/stages.txt has {len(table.rows)} rows: " + ", ".join(f"{counted[stage]} {stage}" for stage in ROW_STAGES))


# Faults that must be noticed: a table, the CTest tests of a build with their labels, the tests of its program, and the fault.
GOOD = "gpu.a test\n  A B\nunit sanitize validate portability limits full\n  C.Two sanitize assisted\n"
EXAMPLES = (
    (GOOD, {"gpu.a.1": ["test"], "unit": ["sanitize"]}, [], "unit has the labels"),
    ("gpu.a\n", {}, [], "gpu.a is in no stage"),
    ("gpu.a tset\n", {}, [], "'tset' is no stage"),
    ("gpu.a test\n", {}, [], "the stage 'portability' has no test"),
    ("gpu.a test\ngpu.a test\n", {}, [], "two rows"),
    (GOOD, {"gpu.b": ["gpu"]}, [], "the CTest test gpu.b is in no stage"),
    (GOOD, {"gpu.a": ["test"]}, [], "unit of tests/stages.txt is no CTest test"),
    (GOOD, {}, ["A.One", "B.One", "D.One"], "D.One is in no row"),
    (GOOD, {}, ["A.One", "B.One", "C.One", "C.Two"], "C.One is in no row"),
    (GOOD, {}, ["A.One", "C.Two"], "B under gpu.a of tests/stages.txt is no test"),
    (GOOD + "x test\n  A\n", {}, ["A.One", "B.One", "C.Two"], "A.One is in gpu.a and x"),
    (GOOD + "x test\n  K/D sanitize:tile\n", {}, ["A.One", "B.One", "C.Two", "K/D.One/lane"], "no test for the kernel 'tile'"),
)
# Parts that scripts and tests/support/test_part.cpp refuse, and some that they take.
BAD_PARTS = ("0/24", "25/24", "1/0", "0/0", "x/y", "1/24x", "1", "1/", "/4", "-1/4", "1/4/2", " 1/4", "1.5/4")
GOOD_PARTS = ("1/1", "1/24", "24/24", "08/64")


# Reports of CTest or GoogleTest, and the line that scripts/count-tests makes from each.
COUNTED = (
    ('status="run"', "", "1 passed, 0 failed, 0 skipped"),
    ('status="fail"', "", "0 passed, 1 failed, 0 skipped"),
    ('status="notrun"', '<skipped message="SKIP_RETURN_CODE=77"/><system-out>no device</system-out>',
     "0 passed, 0 failed, 1 skipped"),
    ('status="notrun"', '<skipped message="SKIP_RETURN_CODE=77"/><system-out> </system-out>', "0 passed, 1 failed, 0 skipped"),
    ('status="notrun"', '<skipped message="Fixture dependency failed"/>', "0 passed, 0 failed, 1 skipped"),
    ('status="disabled"', '<skipped message="Disabled"/>', "0 passed, 1 failed, 0 skipped"),
)
COUNTED_CASES = (
    ('<testcase status="run" result="completed"/>', "1 passed, 0 failed, 0 skipped"),
    ('<testcase status="run" result="skipped"><skipped message="a.cpp:7&#xA;no float8&#xA;"/></testcase>',
     "0 passed, 0 failed, 1 skipped"),
    ('<testcase status="run" result="skipped"><skipped message="a.cpp:7&#xA;"/></testcase>', "0 passed, 1 failed, 0 skipped"),
    ('<testcase status="notrun" result="suppressed"/>', "0 passed, 1 failed, 0 skipped"),
    ('<testcase><skipped type="pytest.skip" message="no NumPy"/></testcase>', "0 passed, 0 failed, 1 skipped"),
    ('<testcase><skipped type="pytest.skip" message=""/></testcase>', "0 passed, 1 failed, 0 skipped"),
    ("", "0 passed, 1 failed, 0 skipped"),
)


def counted(folder, entry, cases):
    """The last line of scripts/count-tests for one CTest entry. Its program has reported these cases, or nothing."""
    report, results = pathlib.Path(folder) / "report.xml", pathlib.Path(folder) / "results"
    results.mkdir(exist_ok=True)
    report.write_text(f"<testsuite>{entry}</testsuite>", encoding="utf-8")
    (results / "a.xml").unlink(missing_ok=True)
    if cases is not None:
        (results / "a.xml").write_text(f"<testsuites>{cases}</testsuites>", encoding="utf-8")
    done = subprocess.run([sys.executable, str(ROOT / "scripts/count-tests"), str(report), str(results)], text=True,
                          stdout=subprocess.PIPE, check=False)
    return done.stdout.splitlines()[-1] if done.stdout else f"nothing, exit code {done.returncode}"


def faults_of_counting():
    reports = [(f'<testcase name="a" {status}>{inner}</testcase>', None, line) for status, inner, line in COUNTED]
    reports += [('<testcase name="a" status="run"/>', cases, line) for cases, line in COUNTED_CASES]
    with tempfile.TemporaryDirectory() as folder:
        for entry, cases, expected in reports:
            found = counted(folder, entry, cases)
            if found != expected:
                yield f"scripts/count-tests makes '{found}' of {entry} and {cases}, not '{expected}'"


def faults_of_examples():
    for text, labels, names, expected in EXAMPLES:
        table = parse(text)
        tests = [{"name": name, "properties": [{"name": "LABELS", "value": value}]} for name, value in labels.items()]
        found = [*faults_of_table(table), *faults_of_tests(table, tests, []),
                 *(faults_of_program(table.rows.values(), names, []) if names else ()),
                 *(faults_of_kernels(table.rows.values(), names) if names else ())]
        if not any(expected in fault for fault in found):
            yield f"tests/stages.py does not notice '{expected}' in {text!r}, but {found}"
    for part in (*BAD_PARTS, *GOOD_PARTS):
        script = 'source scripts/lib.sh && require_test_part "$1"'
        taken = subprocess.run(["bash", "-c", script, "bash", part], cwd=ROOT, stderr=subprocess.DEVNULL).returncode == 0
        if taken != (part in GOOD_PARTS):
            yield f"require_test_part of scripts/lib.sh {'takes' if taken else 'refuses'} '{part}'"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--ctest", default="ctest")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--filter", nargs="+", metavar=("WORD", "KERNEL"))
    arguments = parser.parse_args()
    table = parse(TABLE.read_text(encoding="utf-8"))
    if arguments.list:
        list_stages(table)
        return 0
    if arguments.markdown:
        print(markdown(table), end="")
        return 0
    if arguments.filter:
        print(":".join(word_patterns(table, arguments.filter[0], arguments.filter[1:])))
        return 0
    faults = [*faults_of_table(table), *faults_of_python(table), *faults_of_document(table), *faults_of_examples(),
              *faults_of_counting()]
    if arguments.build:
        faults += faults_of_build(table, arguments.build, arguments.ctest)
    for fault in faults:
        print(f"FAILED {fault}", file=sys.stderr)
    print(f"{len(table.rows)} rows, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Runs docs/attention.md as a reader does, from top to bottom in one folder, and compares its outputs with the shown ones.

    tests/lesson.py TOOL            exit code 1 if an output differs, 77 if there is no NumPy or no device
    tests/lesson.py TOOL --write    writes the outputs of this run into the document; read the diff before you keep it

A program is a block of Python, with its output in a block of text below. A command is a line '$ vkattn …' of an indented block, and
the rest of the block is its output. Each command also compares its weights with the float64 reference (--check). It runs without
--plot, because a build without cairo cannot draw.
"""
import contextlib
import io
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/attention.md"
SKIPPED = 77
LEAST = {"programs": 12, "commands": 8}
# The beginnings of lines that differ between devices. Such a line may continue in the lines below.
OF_DEVICE = re.compile(r"^(?:device|kernel|time|This device).*\n?(?: {10}.*\n?)*", re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


class Step(NamedTuple):
    """A program or command of the document, and the lines from `begin` to `end` that show its output."""

    line: int
    code: str
    is_command: bool
    indent: str
    begin: int
    end: int


def read_fence(lines, at):
    """The line after the end of the fenced block that begins at a line."""
    return next(i for i in range(at + 1, len(lines)) if lines[i] == "```") + 1


def read_program(lines, at):
    end = read_fence(lines, at)
    code = "\n".join(lines[at + 1:end - 1])
    shown = end + 1 if lines[end:end + 2] == ["", "```text"] else end
    return Step(at + 1, code, False, "", shown + 1 if shown > end else end, read_fence(lines, shown) - 1 if shown > end else end)


def read_command(lines, at, indent):
    behind = at + 1
    while lines[behind - 1].endswith("\\"):
        behind += 1
    end = behind
    while end < len(lines) and (not lines[end] or lines[end].startswith(indent)) and not lines[end].startswith(indent + "$"):
        end += 1
    while not lines[end - 1]:
        end -= 1
    code = " ".join(line.strip().rstrip("\\") for line in lines[at:behind])
    return Step(at + 1, code[len("$ vkattn "):], True, indent, behind, end)


def read_steps(lines):
    steps, at = [], 0
    while at < len(lines):
        command = re.match(r"( {4,})\$ vkattn ", lines[at])
        if command:
            steps.append(read_command(lines, at, command[1]))
        elif lines[at] == "```python":
            steps.append(read_program(lines, at))
        elif lines[at].startswith("```"):
            sys.exit(f"FAILED {DOCUMENT.name}:{at + 1}: this block is no program and not the output of one")
        at = max(at + 1, steps[-1].end + (lines[steps[-1].end:][:1] == ["```"]) if steps else 0)
    return steps


def printed_by(step, tool, names):
    """The output of a program or command, without the line of --check, which the reader does not type."""
    if not step.is_command:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(step.code, f"{DOCUMENT.name}:{step.line}", "exec"), names)
        return printed.getvalue()
    words = shlex.split(re.sub(r" --plot \S+", "", step.code))
    is_checked = "--check" in words or "--memory" in words
    done = subprocess.run([tool, *words, *([] if is_checked else ["--check"])], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAILED {DOCUMENT.name}:{step.line}: vkattn {step.code}\n{done.stdout}{done.stderr}")
    return done.stdout if is_checked else re.sub(r"^check .*\n(?: .*\n)*", "", done.stdout, flags=re.MULTILINE)


def unit(number):
    """One unit of the number's last digit; 0 for a whole number."""
    mantissa, _, exponent = number.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals) if "." in number or exponent else 0


def is_near(a, b, is_random):
    """Devices and releases of NumPy round differently. Results from random numbers may differ between devices by 2 %."""
    allowed = max(unit(b) or 1, 0.02 * abs(float(b))) if is_random else unit(b)
    return abs(float(a) - float(b)) <= 1.01 * allowed


def compared_lines(text):
    text = re.sub(r"^(check +\w+).*\n(?: {10}.*\n?)*", r"\1\n", text, flags=re.MULTILINE)  # the place of the largest error differs
    return [line.rstrip() for line in OF_DEVICE.sub("", text).splitlines() if line.strip()]


def faults(step, shown, printed):
    is_random = step.is_command and ("--text" in step.code or "--sweep-dim" in step.code)
    told, found = compared_lines(shown), compared_lines(printed)
    if len(told) != len(found):
        yield f"{DOCUMENT.name}:{step.line}: {len(told)} lines are shown and {len(found)} printed:\n{printed}"
        return
    for a, b in zip(found, told):
        same_words = NUMBER.sub("#", a).split() == NUMBER.sub("#", b).split()
        if not same_words or not all(is_near(x, y, is_random) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b))):
            yield f"{DOCUMENT.name}:{step.line}: shows  {b}\n    and prints  {a}"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(1 if os.environ.get("VKATTN_TEST_REQUIRE_DEVICE") == "1" else SKIPPED)


def main():
    tool, is_writing = str(pathlib.Path(sys.argv[1]).resolve()), "--write" in sys.argv
    try:
        import numpy  # noqa: F401
    except ImportError:
        skip("this Python has no NumPy")
    if subprocess.run([tool, "devices"], capture_output=True, check=False).returncode != 0:
        skip("the tool finds no Vulkan device")
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    steps = read_steps(lines)
    counts = {"programs": sum(not step.is_command for step in steps), "commands": sum(step.is_command for step in steps)}
    found = [f"{DOCUMENT.name} has {counts[name]} {name}, at least {least} are expected"
             for name, least in LEAST.items() if counts[name] < least]
    names, outputs = {}, []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.symlink(ROOT / "examples", "examples")
        for step in steps:
            outputs.append(printed_by(step, tool, names))
            shown = "\n".join(line[len(step.indent):] for line in lines[step.begin:step.end])
            found += faults(step, shown, outputs[-1])
        os.chdir("/")
    if is_writing:
        for step, output in reversed(list(zip(steps, outputs))):
            if step.begin < step.end or step.is_command:
                lines[step.begin:step.end] = [(step.indent + line).rstrip() for line in output.rstrip("\n").splitlines()]
        DOCUMENT.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return 0
    for fault in found:
        print(f"FAILED {fault}", file=sys.stderr)
    print(f"{counts['programs']} programs, {counts['commands']} commands, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Changes of the sources that are planted in a copy of the tree, which is then built: faults, and ablations.

A file of changes has, for each change:

    KIND NAME             begins the change; KIND is fault or ablation
    needs WHAT, by NAMES  what only some kinds have
    file PATH             the next replacements are in this file
    - old text            consecutive lines, or part of a line, that the file has exactly once
    + new text            replaces the old text
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Replacement:
    """Replaces the lines `old` of a file by the lines `new`."""

    def __init__(self, file):
        self.file, self.old, self.new = file, [], []

    def apply(self, text, name):
        old, new = "\n".join(self.old), "\n".join(self.new)
        if not old or text.count(old) != 1:
            sys.exit(f"{name}: {self.file} has these lines {text.count(old)} times, not once:\n{old}")
        return text.replace(old, new)


class Change:
    def __init__(self, name):
        self.name, self.needs, self.by, self.replacements = name, None, [], []

    def take_line(self, line):
        """Whether the line is one of a change."""
        word, _, rest = line.partition(" ")
        last = self.replacements[-1] if self.replacements else None
        if word == "needs":
            self.needs = rest
        elif word == "by":
            self.by = rest.split()
        elif word == "file":
            self.replacements.append(Replacement(rest))
        elif word == "-" and last and not last.new:
            last.old.append(line[2:])
        elif word == "-" and last:
            self.replacements.append(Replacement(last.file))
            self.replacements[-1].old.append(line[2:])
        elif word == "+" and last:
            last.new.append(line[2:])
        else:
            return False
        return True

    def texts(self, source):
        """{path: (text, changed text)} of all files below `source` that it changes."""
        texts = {}
        for replacement in self.replacements:
            path = source / replacement.file
            text, changed = texts.get(path) or (path.read_text(),) * 2
            texts[path] = text, replacement.apply(changed, self.name)
        return texts

    @contextlib.contextmanager
    def planted(self, source):
        """Plants the change in the copy of the tree, and takes it away again."""
        texts = self.texts(source)
        try:
            for path, (_, changed) in texts.items():
                path.write_text(changed)
            yield
        finally:
            for path, (text, _) in texts.items():
                path.write_text(text)


def read_changes(path, kind):
    """All changes of a file. Their old texts are in place, once."""
    changes = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if line.startswith(kind + " "):
            changes.append(Change(line.split()[1]))
        elif not changes or not changes[-1].take_line(line):
            sys.exit(f"{path}:{number}: neither {kind}, needs, file, by, '- ' nor '+ '")
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        sys.exit(f"{path}: two changes have one name")
    for change in changes:
        change.texts(ROOT)
    return changes


def copy_tree(source):
    """Brings the copy up to date with the source tree. Unchanged files keep their time, so they are not built again."""
    wanted = set()
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in (".git", "build")]
        for name in files:
            path = pathlib.Path(folder) / name
            target = source / path.relative_to(ROOT)
            wanted.add(target)
            if target.is_file() and target.read_bytes() == path.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    for path in source.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()


def run_logged(command, log, **options):
    with open(log, "w") as out:
        return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, **options).returncode


def configure(work, options):
    """Configures work/build for work/source, which it brings up to date."""
    (work / "logs").mkdir(parents=True, exist_ok=True)
    copy_tree(work / "source")
    command = f"source scripts/lib.sh && configure {work / 'build'} -DCMAKE_BUILD_TYPE=Release {options}"
    if run_logged(["bash", "-c", command], work / "logs/configure.log", cwd=work / "source") != 0:
        sys.exit(f"cannot configure, see {work}/logs/configure.log")


def build(work, targets):
    """Whether the targets build."""
    command = ["nice", "-n", "5", "cmake", "--build", str(work / "build"), "--target", *targets]
    return run_logged(command, work / "logs/build.log") == 0

"""Tests of the window under Xvfb: scripts of keys and clicks, whose pictures are compared.

    window_test.py PROGRAM FOLDER HEADS KEPT LAYERS HAS_VALIDATION

PROGRAM is the window; FOLDER is for its pictures, which stay; HEADS is a file of trained heads; KEPT is an earlier picture of
the tab of a text; LAYERS is the folder of the layer whose devices are lost; HAS_VALIDATION is 1 if the validation layer is installed.
Without a Vulkan device it ends with 77, and with 1 if VKATTN_TEST_REQUIRE_DEVICE is 1.
"""
import contextlib
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

PROGRAM, FOLDER, HEADS, KEPT, LAYERS, HAS_VALIDATION = sys.argv[1:7]
NO_DEVICE = re.compile("no Vulkan (device|for windows|loader)")
# Parts of the pictures: the rows, and the columns.
ALL = (range(720), range(1280))
MAPS = (range(100, 580), range(285, 1200))
TOKENS = (range(70, 96), range(1280))
NO_MAPS = (range(100, 570), range(300, 1200))


class Picture:
    """The pixels of a PNG as screen.cpp writes it: eight bits of red, green and blue, and rows that are added to those above."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        self.width, self.height = struct.unpack(">II", data[16:24])
        packed, at = b"", 8
        while at < len(data):
            length, kind = struct.unpack(">I4s", data[at:at + 8])
            packed += data[at + 8:at + 8 + length] if kind == b"IDAT" else b""
            at += 12 + length
        plain = zlib.decompress(packed)
        length = 1 + 3 * self.width
        row = bytes(length - 1)
        self.rows = []
        for begin in range(0, len(plain), length):
            assert plain[begin] == 2, "another filter than 'up'"
            row = bytes([(a + b) & 255 for a, b in zip(row, plain[begin + 1:begin + length])])
            self.rows.append(row)

    def part(self, area):
        """The bytes of a part, one after the other."""
        rows, columns = area
        return b"".join(self.rows[y][3 * columns.start:3 * columns.stop] for y in rows)

    def means(self, size=16):
        """The mean of each colour over each square of that size."""
        return [sum(sum(row[3 * x + color:3 * (x + size):3]) for row in self.rows[y:y + size]) / size ** 2
                for y in range(0, self.height, size) for x in range(0, self.width, size) for color in range(3)]


def skip(said):
    """Ends a test that has no device."""
    assert NO_DEVICE.search(said) and os.environ.get("VKATTN_TEST_REQUIRE_DEVICE") != "1", said
    raise unittest.SkipTest(said)


@contextlib.contextmanager
def display_server():
    """Xvfb and the name of its display. xvfb-run would sometimes end with a failure of its own, while it cleans up."""
    with subprocess.Popen(["Xvfb", "-displayfd", "1", "-screen", "0", "1600x1000x24"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, encoding="utf-8") as server:
        try:
            yield server, ":" + server.stdout.readline().strip()
        finally:
            server.terminate()


def run(script=None, words=(), display=True, **environment):
    """The exit code of a run, what it said, and its pictures by name."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        lines = pathlib.Path(folder, "script.txt")
        if script is not None:
            lines.write_text(script.replace("PICTURES", FOLDER), encoding="utf-8")
            words = ["--script", str(lines), *words]
        name = stack.enter_context(display_server())[1] if display else ""
        environment = {**os.environ, **environment, "DISPLAY": name, "WAYLAND_DISPLAY": ""}
        done = subprocess.run([PROGRAM, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", timeout=500, check=False)
    if done.returncode == 77:
        skip(done.stdout)
    names = re.findall(r"([^/\n]*)\.png has a picture", done.stdout)
    return done.returncode, done.stdout, {name: Picture(pathlib.Path(FOLDER, name + ".png")) for name in names}


def difference(one, other, area=ALL):
    """The mean difference of two pictures' parts, from 0 to 255."""
    parts = one.part(area), other.part(area)
    return sum(abs(a - b) for a, b in zip(*parts)) / len(parts[0])


class Window(unittest.TestCase):
    def ends_well(self, *words, **environment):
        code, text, pictures = run(*words, **environment)
        self.assertEqual(code, 0, text)
        self.assertNotIn("VUID", text)
        return text, pictures

    def ends_well_validated(self, script):
        text, pictures = self.ends_well(script, ["--validate"])
        self.assertIn("validation: on" if HAS_VALIDATION == "1" else "the validation layer is not installed", text)
        return text, pictures

    def skip_without_validation(self):
        """At a test's end: all else was tested."""
        if HAS_VALIDATION != "1":
            self.skipTest("the validation layer is not installed: no call was validated")

    def differences(self, text):
        found = [float(number) for number in re.findall("from the formula ([0-9.e+-]+)", text)]
        self.assertTrue(all(each < 2e-5 for each in found), text)
        return found

    def test_both_tabs_under_validation(self):
        script = """
wait ready
wait 4
screenshot PICTURES/text.png
hover head1 0.19 0.354
wait 4
screenshot PICTURES/row.png
check
click causal
wait ready
screenshot PICTURES/not_causal.png
check
click crowd_tab
wait 20
screenshot PICTURES/crowd.png
click budget 0.1
wait 40
wait ready
check
screenshot PICTURES/small_budget.png
click text_tab
wait ready
check
"""
        text, shown = self.ends_well_validated(script)
        self.assertEqual(len(self.differences(text)), 4, text)
        for each in shown.values():
            self.assertEqual((each.width, each.height), (1280, 720))
        self.assertGreater(difference(shown["text"], shown["row"], TOKENS), 3)  # the colours of weights
        self.assertLess(difference(shown["text"], shown["row"], MAPS), 3)
        self.assertGreater(difference(shown["text"], shown["not_causal"], MAPS), 30)  # nothing is hidden
        self.assertGreater(difference(shown["crowd"], shown["small_budget"]), 1)  # agents have moved
        self.assertGreater(difference(shown["crowd"], shown["text"]), 10)
        red = shown["text"].part(MAPS)[::3]
        self.assertGreater(sum(each < 40 for each in red) / len(red), 0.15)  # weights near 0
        self.skip_without_validation()

    def test_looks_as_the_kept_picture(self):
        _, shown = self.ends_well("wait ready\nhover head1 0.19 0.354\nwait 6\nscreenshot PICTURES/as_kept.png\n")
        kept = Picture(KEPT)
        self.assertEqual((kept.width, kept.height), (shown["as_kept"].width, shown["as_kept"].height))
        means = zip(kept.means(), shown["as_kept"].means())
        differences = [abs(a - b) for a, b in means]
        self.assertLess(sum(differences) / len(differences), 6)  # fonts differ a little, and times are others

    def test_every_control_is_right_and_recording_allocates_nothing(self):
        script = """
wait ready
check
click window 0.06
wait ready
check
click softcap 0.2
wait ready
check
click sinks
wait ready
click sink 0.7
wait ready
check
click alibi
wait ready
check
click causal
click temperature 0.7
click scale 0.9
wait ready
check
click heads 0
click dims 0
wait ready
check
click random
wait ready
screenshot PICTURES/words.png
check
click heads 1
click dims 1
click scale 0
wait ready
check
click square_root
click crowd_tab
wait 60
wait ready
check
"""
        text, _ = self.ends_well(script)
        self.assertEqual(len(self.differences(text)), 10, text)
        self.assertIn("allocations in record(): 0", text)

    def test_texts_without_tokens_with_one_and_with_too_many(self):
        script = """
click text
key ctrl+a
key backspace
wait ready
wait 4
screenshot PICTURES/no_token.png
check
type x
wait ready
hover head0
wait 4
screenshot PICTURES/one_token.png
check
click text
key end
repeat 10000 ab
wait ready
wait 4
screenshot PICTURES/many_tokens.png
check
key ctrl+a
type \u20ac\u4e16 of it
wait ready
screenshot PICTURES/unknown_tokens.png
check
"""
        text, shown = self.ends_well(script)
        self.assertEqual(len(self.differences(text)), 4, text)
        self.assertEqual(min(shown["no_token"].part(NO_MAPS)), 255)  # there are no maps
        self.assertLess(min(shown["one_token"].part(MAPS)), 255)
        self.assertGreater(difference(shown["many_tokens"], shown["one_token"]), 5)

    def test_a_hundred_sizes(self):
        sizes = [(320 + 97 * i % 1200, 240 + 61 * i % 700) for i in range(100)]
        script = "wait ready\n" + "".join(f"resize {width} {height}\nwait 2\n" for width, height in sizes)
        script += "resize 400 300\nwait 10\nscreenshot PICTURES/small.png\nminimise\nwait 3\nrestore\nwait 3\n"
        script += "resize 1280 720\nwait 10\ncheck\nclick crowd_tab\nwait 4\nresize 330 250\nwait 5\n"
        _, shown = self.ends_well_validated(script)
        self.assertEqual((shown["small"].width, shown["small"].height), (400, 300))
        self.skip_without_validation()

    def test_a_lost_device_is_made_again(self):
        layer = {"VK_INSTANCE_LAYERS": "VK_LAYER_vkattn_lost_device", "VK_ADD_LAYER_PATH": LAYERS, "VK_LAYER_PATH": LAYERS}
        script = "wait 100\nwait ready\ncheck\nscreenshot PICTURES/lost.png\nclick crowd_tab\nwait 90\nwait ready\ncheck\n"
        for after in 0, 3, 40, 150:  # 0: while fonts are uploaded
            text, _ = self.ends_well(script, VKATTN_TEST_LOST_AFTER=str(after), **layer)
            self.assertIn("The device was lost in vkQueueSubmit", text)
        # Waits are for fonts, for the first swapchain, for the first plan, and for the check.
        for after in range(4):
            text, _ = self.ends_well(script, VKATTN_TEST_LOST_AFTER_WAITS=str(after), **layer)
            self.assertIn("The device was lost in vkQueueWaitIdle", text)
        text, _ = self.ends_well("wait 480\n", VKATTN_TEST_LOST_AFTER="110", VKATTN_TEST_LOSSES="4", **layer)
        self.assertEqual(text.count("The device was lost in"), 4, text)  # each long after the last
        code, text, _ = run(script, VKATTN_TEST_LOST_AFTER="20", VKATTN_TEST_LOSSES="99", **layer)
        self.assertEqual(code, 4, text)
        self.assertIn("the device was lost 3 times", text)

    def test_a_display_that_goes_away(self):
        with display_server() as (server, display):
            with subprocess.Popen([PROGRAM], env={**os.environ, "DISPLAY": display}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding="utf-8") as program:
                said = ""
                while "the first weights" not in said:
                    line = program.stdout.readline()
                    if not line:
                        break
                    said += line
                server.terminate()
                said += program.communicate(timeout=60)[0]
        if program.returncode == 77:
            skip(said)
        self.assertEqual(program.returncode, 1, said)
        # Xlib has one sentence for a pipe that breaks, and another for any other end.
        self.assertRegex(said, f"connection to {display} broken|fatal IO error .* on X server \"{display}\"")

    def test_refusals(self):
        code, text, _ = run(display=False)
        self.assertEqual(code, 3, text)
        self.assertRegex(text, r"^no display \(.*\): start this in a desktop session, or as xvfb-run -a PROGRAM\n$")
        with tempfile.TemporaryDirectory() as folder:
            torn = pathlib.Path(folder, "torn.safetensors")
            torn.write_bytes(pathlib.Path(HEADS).read_bytes()[:5000])
            script = pathlib.Path(folder, "script.txt")
            script.write_text("# a comment\njump 3\n", encoding="utf-8")
            for words, why in (["--model", folder], f"^{folder} is no model folder: it has no model.safetensors"), \
                              (["--heads", "/nowhere"], "^/nowhere"), \
                              (["--heads", str(torn)], "torn.safetensors"), \
                              (["--heads", str(script)], "script.txt"), \
                              (["--script", str(script)], "script.txt, line 2: 'jump' is no command"), \
                              (["--heads"], "^--heads needs a file"), \
                              (["--hedas", "x"], "^'--hedas' is no option; --help lists them"):
                code, text, _ = run(words=words, display=False)
                self.assertEqual(code, 1, text)
                self.assertRegex(text, why)
                self.assertEqual(len(text.splitlines()), 1, text)
        code, text, _ = run("wait 3\nclick nobody\n")
        self.assertEqual(code, 1, text)
        self.assertIn("line 2: nothing in the window has the name 'nobody'", text)


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    result = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False).result
    is_skipped = result.wasSuccessful() and len(result.skipped) == result.testsRun
    sys.exit(77 if is_skipped else 0 if result.wasSuccessful() else 1)

"""Tests of the window's tabs under Xvfb: scripts of keys and clicks, whose pictures and words are compared.

    window_test.py PROGRAM FOLDER HAS_VALIDATION HEADS KEPT LAYERS

HEADS is a file of trained heads; KEPT is an earlier picture of the tab of a text; LAYERS is the folder of the layer whose
devices are lost.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import testing
from testing import MAPS, PROGRAM, TOKENS, Picture, difference, run, skip
from xvfb import display_server

HEADS, KEPT, LAYERS = sys.argv[4:7]
NO_MAPS = (range(100, 570), range(300, 1200))


class Tabs(testing.WindowTest):
    def test_both_tabs_under_validation(self):
        done = self.ends_well_validated("""
wait ready
wait 4
screenshot PICTURES/text.png
words WORDS/text.words
hover head1 0.19 0.354
wait 4
screenshot PICTURES/row.png
words WORDS/row.words
check
click causal
wait ready
screenshot PICTURES/not_causal.png
check
click crowd_tab
wait 20
screenshot PICTURES/crowd.png
words WORDS/crowd.words
click budget 0.1
wait 40
wait ready
check
screenshot PICTURES/small_budget.png
click text_tab
wait ready
check
""")
        shown, words = done.pictures, done.words
        self.assertEqual(len(self.differences(done.said)), 4, done.said)
        for each in shown.values():
            self.assertEqual((each.width, each.height), (1280, 720))
        self.assertGreater(difference(shown["text"], shown["row"], TOKENS), 3)  # the colours of weights
        self.assertLess(difference(shown["text"], shown["row"], MAPS), 3)
        self.assertGreater(difference(shown["text"], shown["not_causal"], MAPS), 30)  # nothing is hidden
        self.assertGreater(difference(shown["crowd"], shown["small_budget"]), 1)  # agents have moved
        self.assertGreater(difference(shown["crowd"], shown["text"]), 10)
        red = shown["text"].part(MAPS)[::3]
        self.assertGreater(sum(each < 40 for each in red) / len(red), 0.15)  # weights near 0
        for text in *(f"head {i}" for i in range(8)), "trained heads, characters", "Point at a row", "causal", "1/sqrt":
            self.assertIn(text, words["text"])
        self.assertRegex(words["row"], r"head 1, query '.' \(8\)\n")
        self.assertRegex(words["row"], r"weight of key '.' \(4\): 0\.\d{4}     sum of the row: 1\.0000")
        for text in "64 agents attend to 256 memories", "budget 2.00 ms", "60 Hz, 16.67 ms", "danger", "55 dispatches":
            self.assertIn(text, words["crowd"])
        self.skip_without_validation()

    def test_looks_as_the_kept_picture(self):
        shown = self.ends_well("wait ready\nhover head1 0.19 0.354\nwait 6\nscreenshot PICTURES/as_kept.png\n").pictures
        kept = Picture(KEPT)
        self.assertEqual((kept.width, kept.height), (shown["as_kept"].width, shown["as_kept"].height))
        means = zip(kept.means(), shown["as_kept"].means())
        differences = [abs(a - b) for a, b in means]
        self.assertLess(sum(differences) / len(differences), 6)  # fonts differ a little, and times are others

    def test_every_control_is_right_and_recording_allocates_nothing(self):
        controls = """causal | window 0.06 | softcap 0.2 | sinks,sink 0.7 | alibi | causal,temperature 0.7,scale 0.9 | heads 0,dims 0
random | heads 1,dims 1,scale 0 | window 1,softcap 1,temperature 0,sink 0 | scale 1,temperature 1,sink 1 | window 0,softcap 0"""
        script, count = "wait ready\ncheck\n", 1
        for each in re.split(r"[|\n]", controls):
            for name in each.split(","):
                script += f"click {name.strip()}\nwait ready\n"
            script += "check\n"
            count += 1
        done = self.ends_well(script + "click square_root\nclick crowd_tab\nwait 20\nclick agent 1\nclick budget 1\nwait 20\n"
                              "click budget 0\nwait 60\nwait ready\ncheck\nwords WORDS/crowd.words\n")
        self.assertEqual(len(self.differences(done.said)), count + 1, done.said)
        self.assertIn("allocations in record(): 0", done.said)
        self.assertIn("0.05 ms", done.words["crowd"])

    def test_texts_without_tokens_with_one_and_with_too_many(self):
        done = self.ends_well("""
click text
key ctrl+a
key backspace
wait ready
wait 4
screenshot PICTURES/no_token.png
words WORDS/no_token.words
check
type x
wait ready
hover head0
wait 4
screenshot PICTURES/one_token.png
words WORDS/one_token.words
check
click text
key end
repeat 10000 ab
wait ready
wait 4
screenshot PICTURES/many_tokens.png
words WORDS/many_tokens.words
check
key ctrl+a
type \u20ac\u4e16 of it
wait ready
screenshot PICTURES/unknown_tokens.png
words WORDS/unknown_tokens.words
check
""")
        shown, words = done.pictures, done.words
        self.assertEqual(len(self.differences(done.said)), 4, done.said)
        self.assertEqual(min(shown["no_token"].part(NO_MAPS)), 255)  # there are no maps
        self.assertLess(min(shown["one_token"].part(MAPS)), 255)
        self.assertGreater(difference(shown["many_tokens"], shown["one_token"]), 5)
        self.assertIn("There is no token to attend to: type a text.", words["no_token"])
        self.assertIn("weight of key 'x' (0): 1.0000     sum of the row: 1.0000", words["one_token"])
        self.assertIn("The first 64 of 20001 characters are shown", words["many_tokens"])
        self.assertIn("left out: these heads have never seen", words["unknown_tokens"])

    def test_a_hundred_sizes(self):
        sizes = [(320 + 97 * i % 1200, 240 + 61 * i % 700) for i in range(100)]
        script = "wait ready\n" + "".join(f"resize {width} {height}\n" for width, height in sizes)
        script += "resize 400 300\nwait 10\nscreenshot PICTURES/small.png\nminimise\nwait 3\nrestore\nwait 3\n"
        script += "resize 1280 720\nwait 10\ncheck\nclick crowd_tab\nwait 4\nresize 330 250\nwait 5\n"
        done = self.ends_well_validated(script)
        small = done.pictures["small"]
        self.assertEqual((small.width, small.height), (400, 300))
        self.assertGreater(int(re.search("(\\d+) swapchains", done.said)[1]), 100, done.said)
        self.skip_without_validation()

    def test_a_lost_device_is_made_again(self):
        layer = {"VK_INSTANCE_LAYERS": "VK_LAYER_vkattn_lost_device", "VK_ADD_LAYER_PATH": LAYERS, "VK_LAYER_PATH": LAYERS}
        script = ("wait 8\nwait ready\ncheck\nwords WORDS/lost.words\nclick crowd_tab\nwait 20\nwait ready\ncheck\n")

        def is_lost(kind, after, words, **more):
            """The device is lost after so many calls of a kind."""
            done = self.ends_well(script, **{"VKATTN_TEST_LOST_" + kind: str(after)}, **more, **layer)
            self.assertRegex(done.said, "The device was lost in " + words)
            return done
        for after in 0, 3, 8, 24:  # 0: while fonts are uploaded
            done = is_lost("AFTER", after, "vkQueueSubmit")
        self.assertNotIn("The device was lost", done.words["lost"])
        self.assertIn("The device was lost in vkQueueSubmit after 2 frames", is_lost("AFTER", 3, "").words["lost"])
        for after in range(4):  # waits for fonts, for the first swapchain, for the first plan, and for the check
            is_lost("AFTER_WAITS", after, "vkQueueWaitIdle")
        for after in 0, 5, 11, 17, 23, 27:  # buffers, pipelines and swapchains of each part of the window
            is_lost("AFTER_CREATIONS", after, "")
        is_lost("OPENINGS", 2, "vkCreateDevice after 0 frames")
        done = self.ends_well("wait 480\n", VKATTN_TEST_LOST_AFTER="110", VKATTN_TEST_LOSSES="4", **layer)
        self.assertEqual(done.said.count("The device was lost in"), 4, done.said)  # each long after the last
        for why in ("AFTER", "20"), ("OPENINGS", "3"):
            done = run(script, **{"VKATTN_TEST_LOST_" + why[0]: why[1]}, VKATTN_TEST_LOSSES="99", **layer)
            self.assertEqual(done.code, 4, done.said)
            self.assertIn("the device was lost 3 times", done.said)

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
        # Xlib has one sentence for a pipe that breaks, and another for any other end. The driver may notice before it does.
        self.assertRegex(said, f"connection to {display} broken|fatal IO error .* on X server \"{display}\"|the display has gone: ")

    def test_refusals(self):
        done = run(display=False)
        self.assertEqual(done.code, 3, done.said)
        self.assertRegex(done.said, r"^no display \(.*\): start this in a desktop session, or as xvfb-run -a PROGRAM\n$")
        with tempfile.TemporaryDirectory() as folder:
            torn = pathlib.Path(folder, "torn.safetensors")
            torn.write_bytes(pathlib.Path(HEADS).read_bytes()[:5000])
            script = pathlib.Path(folder, "script.txt")
            script.write_text("# a comment\njump 3\n", encoding="utf-8")
            for words, why in (["--heads", "/nowhere"], "^/nowhere"), \
                              (["--heads", str(torn)], "torn.safetensors"), \
                              (["--heads", str(script)], "script.txt"), \
                              (["--script", str(script)], "script.txt, line 2: 'jump' is no command"), \
                              (["--heads"], "^--heads needs a file"), \
                              (["--model"], "^--model needs a folder"), \
                              (["--hedas", "x"], "^'--hedas' is no option; --help lists them"):
                self.says_one_line(why, words)
        done = run("wait 3\nclick nobody\n")
        self.assertEqual(done.code, 1, done.said)
        self.assertIn("line 2: nothing in the window has the name 'nobody'", done.said)


if __name__ == "__main__":
    testing.main()

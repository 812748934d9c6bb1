"""scripts/check_pages finds what is wrong with a page: another word, a number that may not vary, a command that fails.

check_pages_test.py SOURCE MOETUNE
"""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE, MOETUNE = pathlib.Path(sys.argv[1]), sys.argv[2]
SCRIPT = SOURCE / "scripts/check_pages"
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("check_pages", str(SCRIPT))
check_pages = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_pages", loader))
sys.modules["check_pages"] = check_pages
loader.exec_module(check_pages)


def agrees(page, shown, numbers_vary=False):
    command = check_pages.Command("page.md", 1, "moetune", page.split("\n"), numbers_vary)
    try:
        check_pages.compare(command, shown)
    except check_pages.Wrong:
        return False
    return True


class Compared(unittest.TestCase):
    def test_words_agree(self):
        self.assertTrue(agrees("best  462.6 µs", "best   462.6 µs\n"))
        self.assertFalse(agrees("best  462.6 µs", "worst 462.6 µs\n"))
        self.assertFalse(agrees("best", "best\nand more\n"))
        self.assertFalse(agrees("best\nand more", "best\n"))
        self.assertFalse(agrees("a.b", "axb\n"))

    def test_numbers_vary_only_where_the_page_says_so(self):
        self.assertFalse(agrees("6,737 configurations, 0:20", "6,738 configurations, 1:05\n"))
        self.assertTrue(agrees("6,737 configurations, 0:20", "12 configurations, 1:05\n", numbers_vary=True))
        self.assertFalse(agrees("6,737 configurations", "many configurations\n", numbers_vary=True))
        self.assertFalse(agrees("12 µs", "12 ms\n", numbers_vary=True))
        self.assertFalse(agrees("NVIDIA H200", "NVIDIA H100\n", numbers_vary=True))
        self.assertTrue(agrees("batch=8,p_95=1.5 (-2.0%)", "batch=16,p_95=11 (-0.1%)\n", numbers_vary=True))

    def test_dots_stand_for_what_is_left_out(self):
        self.assertTrue(agrees("batch=64,...,page=0,...", "batch=64,q_heads=64,page=0,lse=none\n"))
        self.assertFalse(agrees("batch=64,...,page=0", "batch=64,q_heads=64,page=1\n"))
        self.assertTrue(agrees("a\n...\nb", "a\nb\n"))
        self.assertTrue(agrees("a\n...\nb", "a\n1\n2\nb\n"))
        self.assertFalse(agrees("a\n...\nb", "a\n1\n2\n"))


class Run(unittest.TestCase):
    def faults_of(self, page):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "page.md"
            file.write_text(page)
            ended = subprocess.run([sys.executable, "-B", SCRIPT, "--binary", MOETUNE, file], capture_output=True,
                                   text=True)
        self.assertEqual(ended.returncode == 0, " 0 faults" in ended.stdout, ended.stderr)
        return "" if ended.returncode == 0 else ended.stdout + ended.stderr

    def test_right_page(self):
        page = "```\nmoetune kernels   # all\nmoetune space router \\\n  --arch sm_90a\n```\n"
        self.assertEqual("", self.faults_of(page))

    def test_wrong_pages(self):
        self.assertIn("unknown option", self.faults_of("Try `moetune kernels --wrong 1`.\n"))
        self.assertIn("it ends with 2", self.faults_of("- In a list:\n\n  ```\n  moetune kernels rooter\n  ```\n"))
        self.assertIn("it ends with 2", self.faults_of("```\nmoetune kernels rooter\n```\n"))
        self.assertIn("the page shows", self.faults_of("```console\n$ moetune kernels\nnone\n```\n"))
        self.assertIn("what is this?", self.faults_of("```\nrm -r .\n```\n"))
        self.assertIn("a block of 'bahs'", self.faults_of("```bahs\nmoetune kernels\n```\n"))
        self.assertIn("a block of text has commands", self.faults_of("```text\nmoetune kernels\n```\n"))
        self.assertIn("begins with its command", self.faults_of("```console\nkernels\n$ moetune kernels\n```\n"))
        self.assertIn("syntax error", self.faults_of("```\nmoetune kernels (\n```\n"))

    def test_a_block_that_the_reader_saves(self):
        page = "<!-- file new/one.json -->\n```json\n{\"a\": '$HOME'}\n```\n\n```\ncp new/one.json copied\n```\n"
        self.assertEqual("", self.faults_of(page))
        self.assertIn("cannot stat", self.faults_of(page.replace("<!-- file new/one.json -->\n", "")))

    def test_a_command_that_should_want_a_gpu(self):
        page = "```\nmoetune verify decode_attention --problem batch=8,context=4096\n```\n"
        self.assertEqual("", self.faults_of(page))
        self.assertIn("it should ask for a GPU", self.faults_of(page.replace("batch", "badge")))


unittest.main(argv=sys.argv[:1])

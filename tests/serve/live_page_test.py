"""The service's live page in headless Chromium, with a search running: it is drawn, it updates, and it is quiet.

Run by ctest with MOETUNE_BINARY. Exit code 77: skipped, with a reason.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "report"))
from browser import Browser, find_browser


def write_recording(path):
    # So many that a search of all of them runs until it is cancelled, five minutes with PACE.
    points = [(x, y) for x in range(200) for y in range(300)]
    cache = {f"{x},{y}": {"x": x, "y": y, "time": 1 + 0.1 * abs(x - 7) + 0.01 * abs(y - 42)} for x, y in points}
    path.write_text(json.dumps({
        "device_name": "Test GPU", "kernel_name": "saxpy", "problem_size": 1000, "tune_params_keys": ["x", "y"],
        "tune_params": {"x": list(range(200)), "y": list(range(300))}, "objective": "time", "cache": cache}))


LIVE = "document.getElementById('state').textContent === 'live'"
LOGIN = "!document.getElementById('login').hidden"
TOKEN = "a-token-of-this-test"
PACE = {"MOETUNE_REPLAY_PACE_MS": "5"}


class LivePage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="moetune-live-")
        folder = pathlib.Path(self.folder.name)
        write_recording(folder / "saxpy.json")
        self.start("127.0.0.1:0")
        self.browser = Browser(find_browser())

    def start(self, listen, *options):
        folder = pathlib.Path(self.folder.name)
        self.service = subprocess.Popen(
            [os.environ["MOETUNE_BINARY"], "serve", "--listen", listen, "--cache", folder / "cache.db",
             "--device", f"replay:{folder / 'saxpy.json'}", *options],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "MOETUNE_LIBCUDA": "none", **PACE})
        self.url = self.service.stdout.readline().split()[2]

    def stop(self):
        self.service.terminate()
        self.service.wait()
        self.service.stdout.close()

    def tearDown(self):
        self.browser.close()
        self.stop()
        self.folder.cleanup()

    def submit(self, **request):
        body = json.dumps({"kind": "search", "request": request}).encode()
        message = urllib.request.Request(self.url + "v1/jobs", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(message) as answer:
            return json.load(answer)["id"]

    def open(self):
        self.browser.load(self.url)

    def until(self, expression, what):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            value = self.browser.evaluate(expression)
            if value:
                return value
            time.sleep(0.1)
        self.fail(f"{what}: {self.browser.evaluate('document.body.innerText')[:2000]}")

    def test_a_running_search_is_followed_without_a_complaint(self):
        browser = self.browser
        self.open()
        self.until(LIVE, "the stream is not open")
        self.assertEqual(browser.evaluate("document.querySelectorAll('canvas').length"), 0)
        running, queued = self.submit(budget=60000, seed=5), self.submit(budget=30, seed=6)
        self.until("document.querySelector('#curves canvas')", "no curve appears")
        trials = "parseInt(document.querySelector('#devices tbody tr').children[4].textContent)"
        first = self.until(trials, "no trials are shown")
        self.until(f"{trials} > {first}", "the trials do not go on")
        self.until(f"document.querySelector('#queue tbody').textContent.includes('{queued}search')", "no queue")
        drawn = """(() => { const canvas = document.querySelector('#curves canvas');
          const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
          return new Set(new Uint32Array(data.buffer)).size; })()"""
        self.assertGreater(browser.evaluate(drawn), 20)
        self.assertIn("saxpy", browser.evaluate("document.getElementById('devices').textContent"))
        cancel = urllib.request.Request(f"{self.url}v1/jobs/{running}/cancel", b"{}",
                                        {"Content-Type": "application/json"})
        urllib.request.urlopen(cancel).close()
        self.until("document.querySelectorAll('#ended tbody tr').length === 2", "what has ended is not shown")
        self.until("!document.querySelector('#curves canvas')", "an ended search keeps its curve")
        self.assertEqual(browser.evaluate("document.cookie"), "")  # HttpOnly
        elsewhere = [one for one in browser.complaints if not one.startswith(f"request: {self.url}")]
        self.assertEqual(elsewhere, [])

    def test_a_warning_is_shown_once_with_its_text(self):
        self.stop()
        packs = pathlib.Path(self.folder.name) / "packs"
        packs.mkdir()
        # Of before; a job that replays leaves no winner for another one.
        shutil.copy(pathlib.Path(__file__).parents[2] / "packs/h100.pack", packs / "service.pack")
        self.start("127.0.0.1:0", "--packs", str(packs))
        self.open()
        self.until(LIVE, "the stream is not open")
        shown = "document.getElementById('warnings').textContent"
        self.assertTrue(self.browser.evaluate("document.getElementById('warned').hidden"))
        for seed in (1, 2):
            self.submit(budget=5, seed=seed)
            self.until(f"document.querySelectorAll('#ended tbody tr').length === {seed}", "the job does not end")
            self.until(f"{shown}.includes('service.pack')", "no warning is shown")
        self.assertFalse(self.browser.evaluate("document.getElementById('warned').hidden"))
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#warnings tbody tr').length"), 1)

    def test_a_session_that_has_ended_shows_the_login_and_goes_on_with_a_token(self):
        self.stop()
        tokens = pathlib.Path(self.folder.name) / "tokens"
        tokens.write_text(f"read {TOKEN}\n")
        tokens.chmod(0o600)
        self.start("127.0.0.1:0", "--token-file", str(tokens))
        self.open()
        for _ in range(2):  # sessions end with their service
            self.until(LOGIN, "no login")
            self.browser.evaluate(f"document.getElementById('token').value = '{TOKEN}';"
                                  "document.querySelector('#login button').click()")
            self.until(LIVE, "the stream is not open")
            self.stop()
            self.start(self.url.split("/")[2], "--token-file", str(tokens))


if __name__ == "__main__":
    if find_browser() is None:
        print("SKIPPED: no Chromium here (chromium-headless-shell)")
        sys.exit(77)
    unittest.main()

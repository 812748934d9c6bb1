"""Headless Chromium through its debugging pipe: what a page draws, says on its console, and does when it is used.

Chromium reads commands from its file descriptor 3 and answers on 4, as JSON texts that end with a zero byte. One
Browser has one page; close() ends it and removes its profile.
"""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_browser():
    """The program, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, program, width=1280, height=900, dark=False):
        self.profile = tempfile.mkdtemp(prefix="moetune-browser-")
        to_browser, self.writing = os.pipe()
        self.reading, from_browser = os.pipe()

        def connect():
            # Through copies, because 3 and 4 may be what is to be moved.
            copies = (os.dup(to_browser), os.dup(from_browser))
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking",
             "--force-device-scale-factor=1", "--hide-scrollbars", f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session = b"", 0, None
        self.complaints = []  # console errors and warnings, exceptions, requests that failed or left the page
        self.loaded = set()  # the documents (their loaders' ids) whose load event has fired
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.resize(width, height)
        self.media(dark=dark)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.writing)
        os.close(self.reading)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writing, data):]
        while True:
            answer = self._next(60)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self, seconds):
        """The next message; what it says of the page is kept."""
        while b"\0" not in self.buffer:
            if not select.select([self.reading], [], [], seconds)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.reading, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, said):
        if method == "Page.lifecycleEvent" and said["name"] == "load":
            self.loaded.add(said["loaderId"])
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.complaints.append(f"console: {said['args']}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(f"exception: {said['exceptionDetails']}")
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"log: {said['entry']['text']}")
        elif method == "Network.requestWillBeSent" and not said["request"]["url"].startswith(("file:", "data:")):
            self.complaints.append(f"request: {said['request']['url']}")

    def open(self, path, fragment=""):
        """Opens a file; the seconds until it was loaded and had drawn two frames."""
        # From a blank page, or an address that differs in its fragment alone would load nothing.
        self.load("about:blank")
        begin = time.monotonic()
        self.load(pathlib.Path(path).resolve().as_uri() + fragment)
        self.settle()
        return time.monotonic() - begin

    def load(self, address):
        """Returns after the load event of that very document."""
        document = self.call("Page.navigate", url=address)["loaderId"]
        while document not in self.loaded:
            self._next(60)

    def settle(self):
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def go(self, fragment):
        """As a link of the page would."""
        self.evaluate(f"location.hash = {json.dumps(fragment)}")
        self.settle()

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, key, text=None):
        codes = {"Enter": 13, "Tab": 9, " ": 32}
        event = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        typed = text if text is not None else key if len(key) == 1 else "\r" if key == "Enter" else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": typed} if typed else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)
        self.settle()

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def media(self, dark=False, kind=""):
        self.call("Emulation.setEmulatedMedia", media=kind,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path):
        self.settle()
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

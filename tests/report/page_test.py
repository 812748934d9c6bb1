"""The report's page in headless Chromium: drawn, usable, quick, quiet, and deaf to what names say.

Run by ctest with MOETUNE_BINARY and MAKE_REPORT_CACHE. Exit code 77: skipped, with a reason.
"""
import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser, find_browser

# Of a canvas: whether it has more than so many pixels that are neither transparent nor of the commonest colour.
DRAWN = """
(() => [...document.querySelectorAll('canvas')].map(canvas => {
  const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) || 0) + 1);
  return {colours: counts.size, other: pixels.length - Math.max(...counts.values()), size: pixels.length};
}))()
"""


def column(name):
    return f"""(() => {{
      const table = document.getElementById('workloads');
      const at = [...table.querySelectorAll('th button')].findIndex(b => b.dataset.column === '{name}');
      return [...table.querySelectorAll('tbody tr')].map(row => row.children[at].textContent);
    }})()"""


def click(selector):
    return f"document.querySelector({selector!r}).click()"


def micros(text):
    number, unit = text.replace("*", "").split()
    return float(number) * {"µs": 1, "ms": 1000}[unit]


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        memory = "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None
        cls.folder = tempfile.TemporaryDirectory(prefix="moetune-page-", dir=memory)
        cls.browser = Browser(find_browser())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def page(self, kind):
        """The page of a made-up cache, made once."""
        folder = pathlib.Path(self.folder.name)
        page = folder / f"{kind}.html"
        if not page.exists():
            cache = folder / f"{kind}.db"
            subprocess.run([os.environ["MAKE_REPORT_CACHE"], kind, cache], check=True)
            subprocess.run([os.environ["MOETUNE_BINARY"], "report", "--cache", cache, "--html", page], check=True,
                           stdout=subprocess.DEVNULL, env={**os.environ, "MOETUNE_LIBCUDA": "none"})
        return page

    def setUp(self):
        self.browser.complaints.clear()
        self.browser.resize(1280, 900)
        self.browser.media()

    def quiet(self):
        self.browser.settle()
        self.assertEqual(self.browser.complaints, [])

    def drawn(self, least):
        charts = self.browser.evaluate(DRAWN)
        self.assertGreaterEqual(len(charts), least)
        for chart in charts:
            self.assertGreater(chart["colours"], 20, charts)
            self.assertGreater(chart["other"], 1000, charts)

    def test_views_are_drawn_without_a_complaint(self):
        browser = self.browser
        page = self.page("usual")
        for dark in (False, True):
            browser.media(dark=dark)
            browser.open(page)
            self.assertEqual(browser.evaluate("document.querySelectorAll('#workloads tbody tr').length"), 26)
            for fragment, charts in (("#view=workload&key=2", 4), ("#view=kernel&id=1", 2), ("#view=changes", 1)):
                browser.go(fragment)
                self.drawn(charts)
            browser.go("#view=ranges")
            cells = browser.evaluate("document.querySelectorAll('table.heat td a').length")
            self.assertEqual(cells, 25)
            browser.go("#view=kernel&id=1")
            heat = browser.evaluate("[...document.querySelectorAll('table.heat td')].map(c => c.style.backgroundColor)")
            self.assertGreater(len(set(heat)), 5)
        self.quiet()

    def test_every_chart_has_a_table(self):
        browser = self.browser
        for fragment in ("#view=workload&key=2", "#view=kernel&id=1", "#view=changes"):
            browser.open(self.page("usual"), fragment)
            self.assertTrue(browser.evaluate("""[...document.querySelectorAll('figure')].every(figure => {
                figure.querySelector('details').open = true; return true; })"""))
            browser.settle()
            rows = browser.evaluate(
                "[...document.querySelectorAll('figure')].map(f => f.querySelectorAll('tbody tr').length)")
            self.assertTrue(rows and all(rows), rows)
            labels = browser.evaluate(
                "[...document.querySelectorAll('canvas')].every(c => c.getAttribute('aria-label'))")
            self.assertTrue(labels)
        self.quiet()

    def test_tables_sort(self):
        browser = self.browser
        browser.open(self.page("usual"))
        for presses, reverse in ((1, False), (1, True)):
            for _ in range(presses):
                browser.evaluate(click("#workloads th button[data-column=best]"))
                browser.settle()
            times = [micros(text) for text in browser.evaluate(column("best"))]
            self.assertEqual(times, sorted(times, reverse=reverse))
            order = browser.evaluate("document.querySelector('#workloads th[aria-sort=%s] button').dataset.column"
                                     % ("descending" if reverse else "ascending"))
            self.assertEqual(order, "best")
        # What is unknown is last in both directions.
        browser.evaluate(click("#workloads th button[data-column=gain]"))
        browser.settle()
        self.assertEqual(browser.evaluate(column("gain"))[-1], "–")
        self.quiet()

    def test_filters_search_and_links_keep_the_state(self):
        browser = self.browser
        page = self.page("usual")
        browser.open(page)
        browser.evaluate("""(() => { const box = document.getElementById('box-q');
            box.value = 'H100 context=4096'; box.dispatchEvent(new Event('input')); })()""")
        browser.settle()
        self.assertEqual(browser.evaluate("document.querySelectorAll('#workloads tbody tr').length"), 3)
        address = browser.evaluate("location.hash")
        self.assertIn("q=H100", address)
        browser.open(page, address)
        self.assertEqual(browser.evaluate("document.getElementById('box-q').value"), "H100 context=4096")
        self.assertEqual(browser.evaluate("document.querySelectorAll('#workloads tbody tr').length"), 3)
        for name, rows in (("stale", 1), ("contended", 2)):
            browser.open(page)
            browser.evaluate(f"""(() => {{ const select = document.getElementById('choice-state');
                select.value = '{name}'; select.dispatchEvent(new Event('change')); }})()""")
            browser.settle()
            self.assertEqual(browser.evaluate("document.querySelectorAll('#workloads tbody tr').length"), rows)
        browser.evaluate("document.querySelector('#workloads td a').click()")
        browser.settle()
        self.assertTrue(browser.evaluate("document.querySelector('h2').textContent").startswith("Workload "))
        self.quiet()

    def test_the_keyboard_does_all(self):
        browser = self.browser
        browser.open(self.page("usual"))
        browser.press("/")
        self.assertEqual(browser.evaluate("document.activeElement.id"), "box-q")
        for letter in "saxpy":
            browser.press(letter)
        self.assertEqual(browser.evaluate("document.activeElement.id"), "box-q")
        self.assertEqual(browser.evaluate("document.querySelectorAll('#workloads tbody tr').length"), 1)
        browser.evaluate("document.querySelector('#workloads th button[data-column=best]').focus()")
        browser.press("Enter")
        self.assertEqual(browser.evaluate("document.activeElement.dataset.column"), "best")
        browser.evaluate("document.querySelector('#workloads td a').focus()")
        browser.press("Enter")
        self.assertTrue(browser.evaluate("document.querySelector('h2').textContent").startswith("Workload "))
        browser.evaluate("document.querySelector('figure summary').focus()")
        browser.press("Enter")
        self.assertTrue(browser.evaluate("document.querySelector('figure details').open"))
        self.quiet()

    def test_a_phone_and_paper(self):
        browser = self.browser
        browser.resize(390, 800, mobile=True)
        for fragment in ("", "#view=workload&key=2", "#view=kernel&id=1", "#view=ranges", "#view=changes"):
            browser.open(self.page("usual"), fragment)
            self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), 390, fragment)
        browser.resize(1280, 900)
        browser.media(kind="print")
        browser.open(self.page("usual"))
        self.assertEqual(browser.evaluate("getComputedStyle(document.querySelector('nav')).display"), "none")
        self.assertTrue(browser.call("Page.printToPDF")["data"])
        self.quiet()

    def test_paper_is_light_and_whole(self):
        browser = self.browser
        browser.media(dark=True)
        browser.open(self.page("big"), "#view=workload&key=1")
        rows = "document.querySelectorAll('#trials tbody tr').length"
        back = "getComputedStyle(document.body).backgroundColor"
        drawn = f"(async () => {{ while ({rows} < 50) await new Promise(requestAnimationFrame); return {rows}; }})()"
        self.assertEqual(browser.evaluate(drawn), 50)  # on a busy machine later than the page
        dark = browser.evaluate(back)
        printed = browser.evaluate("""(() => {
            dispatchEvent(new Event('beforeprint'));
            const canvas = document.querySelector('canvas');
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            return {rows: document.querySelectorAll('#trials tbody tr').length,
                    back: getComputedStyle(document.body).backgroundColor,
                    closed: document.querySelectorAll('details.behind:not([open])').length,
                    empty: [...document.querySelectorAll('details.behind')].filter(d => !d.querySelector('tr')).length,
                    painted: pixels.some(value => value > 0)};
        })()""")
        self.assertGreater(printed["rows"], 1000)
        self.assertEqual(printed["back"], "rgb(255, 255, 255)")
        self.assertNotEqual(printed["back"], dark)
        self.assertEqual((printed["closed"], printed["empty"]), (0, 0))
        self.assertTrue(printed["painted"])  # before the listener returned
        browser.evaluate("dispatchEvent(new Event('afterprint'))")
        browser.settle()
        self.assertEqual(browser.evaluate(rows), 50)
        self.assertEqual(browser.evaluate(back), dark)
        self.quiet()

    def altered(self, name, pattern, text):
        """The usual page with other data."""
        whole = self.page("usual").read_text()
        page = pathlib.Path(self.folder.name) / f"{name}.html"
        page.write_text(re.sub(pattern, text, whole))
        self.assertNotEqual(page.read_text(), whole)
        return page

    def test_a_chart_with_a_long_table_begins_on_the_first_page_of_paper(self):
        self.browser.open(self.page("usual"), "#view=kernel&id=1")
        first = base64.b64decode(self.browser.call("Page.printToPDF", pageRanges="1")["data"])
        self.assertRegex(first, rb"/Subtype /(Form|Image)")
        self.quiet()

    def test_hardware_of_one_name_is_one_choice_and_its_kernels_are_told_apart(self):
        browser = self.browser
        page = self.altered("one_name", '"title":"NVIDIA H100"', '"title":"NVIDIA H200"')
        for fragment, rows in (("", 26), ("#hardware=NVIDIA+H200", 26), ("#hardware=NVIDIA+H100", 0)):
            browser.open(page, fragment)
            self.assertEqual(browser.evaluate("document.querySelectorAll('#workloads tbody tr').length"), rows)
        choices = browser.evaluate("[...document.querySelectorAll('#choice-hardware option')].map(o => o.value)")
        self.assertEqual(choices, ["", "NVIDIA H200"])
        browser.go("#view=kernel&id=1")
        titles = browser.evaluate("[...document.querySelectorAll('#choice-id option')].map(o => o.textContent)")
        self.assertEqual(len(titles), 3)
        self.assertEqual([title for title in titles if ":" not in title], ["saxpy on NVIDIA H200"])
        self.quiet()

    def test_shares_of_a_poor_model_are_not_to_be_relied_on(self):
        for explained, warned in ((0.1, True), (0.9, False)):
            page = self.altered("explained", r'"explained":[^,}]*', f'"explained":{explained}')
            self.browser.open(page, "#view=kernel&id=1")
            notes = self.browser.evaluate("[...document.querySelectorAll('figcaption')].map(c => c.textContent).join()")
            self.assertEqual("do not rely on these shares" in notes, warned, notes)
        self.quiet()

    def test_no_series_has_more_than_two_thousand_points(self):
        browser = self.browser
        text = self.page("usual").read_text()
        begin = text.index(">", text.index('id="data"')) + 1
        end = text.index("</script>", begin)
        data = json.loads(text[begin:end])
        own = data["kernels"][1]["workloads"]
        data["kernels"][1]["workloads"] = [own[i % len(own)] for i in range(2500)]
        page = pathlib.Path(self.folder.name) / "crowded.html"
        page.write_text(text[:begin] + json.dumps(data).replace("<", "\\u003c") + text[end:])
        browser.open(page, "#view=kernel&id=1")
        points = browser.evaluate("""Chart.getChart(document.querySelector('canvas')).data.datasets
            .map(set => [set.label, set.data.length])""")
        self.assertEqual(dict(points)["best"], 2000)
        self.assertLessEqual(max(count for _, count in points), 2000)
        self.quiet()

    def test_a_hundred_thousand_trials_open_at_once(self):
        page = self.page("big")
        self.assertLess(page.stat().st_size, 5 << 20)
        self.assertLess(self.browser.open(page), 2)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#workloads tbody tr').length"), 31)
        self.assertIn("100,000", self.browser.evaluate("document.querySelector('.cards').textContent"))
        self.browser.go("#view=workload&key=1")
        caption = self.browser.evaluate("document.querySelector('#trials caption').textContent")
        self.assertIn("of 40,000 trials", caption)
        self.drawn(3)
        points = self.browser.evaluate(
            "Math.max(...Object.values(Chart.instances).flatMap(c => c.data.datasets.map(d => d.data.length)))")
        self.assertLessEqual(points, 2000)
        self.browser.go("#view=kernel&id=0")
        self.drawn(2)
        points = self.browser.evaluate(
            "Math.max(...Object.values(Chart.instances).flatMap(c => c.data.datasets.map(d => d.data.length)))")
        self.assertLessEqual(points, 2000)
        self.quiet()

    def test_hostile_names_are_text(self):
        browser = self.browser
        page = self.page("hostile")
        views = ["", "#view=ranges", "#view=changes"] + [f"#view=workload&key={k}" for k in range(1, 7)] + \
                [f"#view=kernel&id={k}" for k in range(6)]
        for fragment in views:
            browser.open(page, fragment)
            browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
            browser.settle()
            self.assertEqual(browser.evaluate("document.querySelectorAll('img, iframe, object, link').length"), 0)
            self.assertEqual(browser.evaluate("document.querySelectorAll('script').length"), 3)
        browser.open(page)
        text = browser.evaluate("document.getElementById('workloads').textContent")
        self.assertIn("</script><img src=x onerror=", text)
        self.quiet()

    def test_range_tables_have_maps_certificates_and_timings(self):
        browser = self.browser
        browser.open(self.page("ranges"), "#view=ranges")
        sections = browser.evaluate("[...document.querySelectorAll('section.range')].map(s => s.textContent)")
        self.assertEqual(len(sections), 2)
        table = next(text for text in sections if "on NVIDIA H200" in text)
        hostile = next(text for text in sections if "<img src=x onerror" in text)
        self.assertIn("No certificate", hostile)
        for text in ("1.2%", "5.0%", "never", "In 3 of 9 cells another configuration would win", "alone in 3"):
            self.assertIn(text, table)
        maps = browser.evaluate("""[...document.querySelectorAll('section.range')].flatMap(s =>
            [...s.querySelectorAll('table.heat')].map(t => [...t.querySelectorAll('td')].map(c => c.textContent)))""")
        self.assertEqual([len(cells) for cells in maps], [9, 9, 9])
        time, variant, regret = maps
        self.assertEqual(time[0], "10.00 µs")
        self.assertEqual(variant[0], "A")
        self.assertEqual(regret, ["0.0%"] * 6 + ["3.0%"] * 3)
        colours = browser.evaluate("""[...document.querySelectorAll('table.heat td')]
            .filter(c => c.textContent.endsWith('%')).map(c => c.style.backgroundColor)""")
        self.assertEqual(len(set(colours)), 2)
        browser.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        browser.settle()
        rows = browser.evaluate(
            "[...document.querySelectorAll('section.range table.wide')].map(t => t.querySelectorAll('tbody tr').length)")
        self.assertEqual(sorted(rows), [1, 9])
        self.assertEqual(browser.evaluate("document.querySelectorAll('img').length"), 0)
        browser.evaluate("document.querySelector('section.range table.heat td a').click()")
        browser.settle()
        self.assertEqual(browser.evaluate("document.querySelectorAll('#timings tbody tr').length"), 2)
        self.quiet()

    def test_a_searched_range_is_shown(self):
        folder = pathlib.Path(self.folder.name)
        cache, page = folder / "searched.db", folder / "searched.html"
        environment = {**os.environ, "MOETUNE_LIBCUDA": "none"}
        subprocess.run([os.environ["MOETUNE_BINARY"], "search", "decode_attention", "--over",
                        "batch=1..128,context=2k..8k", "--problem", "q_heads=32,kv_heads=8,head_dim=128", "--budget",
                        "40", "--no-compile", "--cache", cache], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env=environment)
        subprocess.run([os.environ["MOETUNE_BINARY"], "report", "--cache", cache, "--html", page], check=True,
                       stdout=subprocess.DEVNULL, env=environment)
        self.browser.open(page, "#view=ranges")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('section.range table.heat').length"), 3)
        cells = self.browser.evaluate("""[...document.querySelectorAll('section.range table.heat td')]
            .filter(c => c.textContent !== '·').length""")
        self.assertEqual(cells, 12)
        self.quiet()

    def test_addresses_that_name_nothing_do_no_harm(self):
        for fragment in ("#view=nonsense", "#view=workload&key=999", "#view=kernel&id=__proto__", "#view=constructor",
                         "#sort=toString&page=99999", "#page=-5&q=%00%ff", "#view=ranges&show=constructor&page=x"):
            self.browser.open(self.page("usual"), fragment)
            self.assertTrue(self.browser.evaluate("document.getElementById('main').children.length > 0"), fragment)
        self.quiet()


if __name__ == "__main__":
    if find_browser() is None:
        print("SKIPPED: no headless Chromium here (Debian's chromium-headless-shell)")
        sys.exit(77)
    unittest.main(verbosity=2)

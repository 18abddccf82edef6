"""The page in a real browser, Debian's Chromium: every view draws what was seen, says nothing to anybody else, and fits."""

import math
import os
import re
import shutil
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adc_values import gaussian, histograms_of
from fresh import rng
from glances import glance_of, noise
from observations import observe_rows
from ryle.config import load
from ryle.products.glance import Glance
from ryle.serve.control import add_to
from ryle.serve.pictures import loss_codes
from ryle.serve.telescope import Telescope
from ryle.watch.fringes import product_of
from ryle.watch.sight import STAGES, InputSight
from sights import alarm, engine, look
from steered_runs import boundary
from watched import Watched

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
    pytest.skip("Chromium and its driver are not installed", allow_module_level=True)

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

VIEWS = [
    "overview",
    "inputs",
    "bandpass",
    "fringes",
    "matrix",
    "closure",
    "losses",
    "image",
    "alarms",
    "log",
    "levels",
    "control",
]
PAINTED = [
    "bandpass",
    "fringes",
    "matrix",
    "closure",
    "losses",
    "levels",
]  # what has pictures without a source that is followed
LAST_WORDS = "<b>x</b> \x1b[31m <script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "disable-dev-shm-usage",
        f"user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_window_size(1280, 900)
    yield driver
    driver.quit()


def four_antennas(glance):
    shares = {"ring": 1.0, "F": 0.99, "X": None, "file": 0.0}
    inputs = tuple(
        InputSight(
            n,
            f"A{n // 2}",
            "xy"[n % 2],
            10.0 + n,
            -15.0,
            0.0,
            0.0,
            shares if n < 2 else dict.fromkeys(STAGES, 1.0),
            1e-9,
        )
        for n in range(8)
    )
    ended = alarm("loss", "F-engine 0", "warning", ended=1000.0)
    return look(
        inputs=inputs,
        alarms=(alarm("dead", "A1 y"), ended),
        log=("f0: it began", f"f0: {LAST_WORDS}"),
        file="/data/a.uvh5",
        glance=glance,
        begin=1000.0,
        position=1030.0,
        duration=120.0,
    )


@pytest.fixture
def page(browser, served_watcher):
    """Open the page of a watcher, give the browser, and see at the end that nothing went wrong in it."""

    @contextmanager
    def opened(watcher, view="overview", add=lambda app: None):
        with served_watcher(watcher, add) as port:
            browser.get_log("browser")
            browser.get(f"http://127.0.0.1:{port}/#{view}")
            until(browser, lambda: browser.find_element(By.TAG_NAME, "body").get_attribute("data-drawn"))
            yield browser
            problems = [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"]
            assert problems == []
            loaded = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
            assert all(name.startswith(f"http://127.0.0.1:{port}/") for name in loaded), loaded
            browser.get("about:blank")

    return opened


def until(browser, what, seconds=60):
    return WebDriverWait(browser, seconds, poll_frequency=0.05).until(lambda _: what())


def text(browser):
    return browser.find_element(By.TAG_NAME, "main").text


def painted(browser):
    """How many colours the canvases of the view have."""
    return browser.execute_script(
        """return [...document.querySelectorAll("main canvas:not(.scale)")].map((c) => {
             if (!c.width || !c.height) return 0;
             const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
             return new Set(new Uint32Array(data.buffer)).size; })"""
    )


@pytest.fixture
def watcher():
    random = rng()
    glance = glance_of(noise(random, 4, 2, 64, 40) + noise(random, 1, 2, 64, 40))
    values = [gaussian(random, 300 if n == 1 else 40, 20_000) for n in range(8)]
    values[2] = values[2][values[2] != 3]
    sight = four_antennas(glance)
    said = ["1 code missing" if i.index == 2 else "" for i in sight.inputs]
    inputs = tuple(replace(i, codes=words) for i, words in zip(sight.inputs, said, strict=True))
    sight = replace(sight, inputs=inputs, histograms=histograms_of(values, values))
    return Watched(sight, observe_rows(antennas=4, channels=64))


def test_the_overview_says_what_engines_use(page, watcher):
    busy, idle = (replace(engine("f", n), rates={"cpu": 1000.0 * cores}) for n, cores in ((0, 3.9), (1, 0.65)))
    odd = replace(engine("x", gpu_busy=3, gpu_power=[1], gpu_memory=None, memory="x", cores={}), rates={"cpu": 0.0})
    watcher.show(engines=(busy, idle, odd))
    with page(watcher) as browser:
        until(browser, lambda: "▲ 3.90 of 4 cores" in text(browser))
        for words in ("0.65 of 4 cores", "3.22 GB", "37 % busy, 213 W, 12 GB of 80 GB in use"):
            assert words in text(browser), words
        assert text(browser).count("GPU 1") == 2


def test_the_overview_says_what_runs_and_what_is_wrong(page, watcher):
    with page(watcher) as browser:
        until(browser, lambda: "f0" in text(browser))
        for words in (
            "running",
            "dead: A1 y",
            "mend it",
            "/data/a.uvh5",
            "2 TB free",
            "30.0 s of 0:02:00",
            "38 % of 16 blocks",
        ):
            assert words in text(browser), words
        assert "1 alarm" in browser.find_element(By.ID, "bell").text
        assert browser.title.startswith("(1)")


@pytest.mark.parametrize("view", PAINTED)
def test_pictures_are_drawn(page, watcher, view):
    with page(watcher, view) as browser:
        until(browser, lambda: painted(browser) and min(painted(browser)) > 1)


def shown(browser):
    return browser.find_element(By.CSS_SELECTOR, "nav [aria-current]").get_attribute("hash")


def test_every_view_is_a_key_away_and_fits_a_phone(page, watcher):
    phone = {"width": 360, "height": 700, "deviceScaleFactor": 2, "mobile": True}
    with page(watcher) as browser:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        try:
            for key, view in zip("1234567890lc", VIEWS, strict=True):
                browser.find_element(By.TAG_NAME, "body").send_keys(key)
                until(browser, lambda wanted=f"#{view}": shown(browser) == wanted)
                wide = browser.execute_script("return document.documentElement.scrollWidth")
                assert wide <= 360, (view, wide)
        finally:
            browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_text_of_others_is_text(page, watcher):
    with page(watcher, "log") as browser:
        until(browser, lambda: "it began" in text(browser))
        assert "<b>x</b>" in text(browser) and "<script>" in text(browser) and browser.title != "taken"


def rows(browser):
    """Lines of a table: the page makes them anew with each look, so they are read at one instant."""
    return browser.execute_script("return [...document.querySelectorAll('tbody tr')].map((r) => r.innerText)")


def test_inputs_that_need_somebody_come_first(page, watcher):
    with page(watcher, "inputs") as browser:
        words = until(browser, lambda: rows(browser))
        assert len(words) == 8 and words[0].startswith("A1 y") and "dead" in words[0]
        assert words[1].startswith("A0 x") and "losses" in words[1]
        by_level = browser.find_elements(By.CSS_SELECTOR, "thead button")[2]
        by_level.click()
        until(browser, lambda: rows(browser)[0].startswith("A0 x"))
        by_level.click()  # again: backwards
        until(browser, lambda: rows(browser)[0].startswith("A3 y"))
        browser.find_element(By.CSS_SELECTOR, "input[type=search]").send_keys("a2")
        until(browser, lambda: len(rows(browser)) == 2)


def test_arrows_choose_a_baseline(page, watcher):
    with page(watcher, "fringes") as browser:
        until(browser, lambda: "A0 x × A1 x" in text(browser))
        browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_RIGHT)
        until(browser, lambda: "A0 x × A1 y" in text(browser))
        browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_UP)  # the last input: products have it second
        until(browser, lambda: "A1 y × A3 y" in text(browser))


def test_levels_of_an_input_and_what_is_wrong_with_it(page, watcher):
    def colours():
        """How many pixels of the columns have nearly each of two colours of the style sheet."""
        return browser.execute_script(
            """const c = document.querySelector("canvas.columns");
               const all = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
               const style = getComputedStyle(document.documentElement);
               return ["bar", "error"].map((name) => {
                 const hex = style.getPropertyValue(`--${name}`).trim().match(/#(..)(..)(..)/).slice(1);
                 const wanted = hex.map((h) => parseInt(h, 16));
                 let found = 0;
                 for (let at = 0; at < all.length; at += 4)
                   found += all[at + 3] > 100 && wanted.every((w, k) => Math.abs(all[at + k] - w) < 30);
                 return found; })"""
        )

    counts = watcher.sight().histograms.lately
    with page(watcher, "levels") as browser:
        body = browser.find_element(By.TAG_NAME, "body")
        until(browser, lambda: re.search(r"A0 x: rms (39|40|41)", text(browser)))
        assert "✔ 0 % at the ends, ±511 steps" in text(browser) and "✔ codes as they should be" in text(browser)
        until(browser, lambda: colours()[0] > 1000)
        assert colours()[1] == 0
        body.send_keys(Keys.ARROW_DOWN)  # this one clips
        share = 100 * counts[1, [0, 1, 1023, 1024]].sum() / counts[1].sum()
        told = until(browser, lambda: re.search(r"✖ ([\d.]+) % at the ends", text(browser)))
        assert float(told[1]) == pytest.approx(share, abs=0.0051)  # of a half, browsers round up
        until(browser, lambda: colours()[1] > 20)
        body.send_keys(Keys.ARROW_DOWN)
        until(browser, lambda: "✖ 1 code missing" in text(browser))
        until(browser, lambda: colours()[1] > 5)  # the mark below it
        choices = browser.find_elements(By.CSS_SELECTOR, "main select")
        webdriver.support.ui.Select(choices[1]).select_by_visible_text("since the start")
        until(browser, lambda: colours()[0] > 1000)
        found = browser.execute_async_script(
            """const done = arguments[arguments.length - 1];
               const { reach } = await import("/static/view_levels.js");
               const axis = Array.from({ length: 21 }, (_, n) => n - 10);
               const ends = axis.map((v) => Number(Math.abs(v) >= 9));
               const of = (...values) => axis.map((v) => Number(values.includes(v)));
               done([of(1), of(-9), of(10)].map((counts) => reach(axis, counts, ends)));"""
        )
        assert found == [[2, 19], [1, 20], [0, 21]]
        watcher.show(time=2000.0, histograms=None)
        until(browser, lambda: "no ADC values have" in text(browser))


def test_dark_and_light(page, watcher):
    def paper():
        return browser.execute_script("return getComputedStyle(document.body).backgroundColor")

    with page(watcher) as browser:
        before = paper()
        browser.find_element(By.TAG_NAME, "body").send_keys("t")
        until(browser, lambda: paper() != before)
        browser.refresh()
        until(browser, lambda: browser.find_element(By.TAG_NAME, "body").get_attribute("data-drawn"))
        assert paper() != before  # it stays so
        browser.find_element(By.ID, "theme").click()
        until(browser, lambda: paper() == before)


def test_silence_is_told(page, watcher):
    with page(watcher) as browser:
        until(browser, lambda: "last heard" in browser.find_element(By.ID, "state").text)


def test_nothing_runs(page):
    with page(Watched(replace(look(), engines=(), inputs=(), observation=""))) as browser:
        until(browser, lambda: "ryle run FILE" in text(browser))


def test_an_image(page, watcher):
    """What follows no source has none, and that is said."""
    with page(watcher, "image") as browser:
        until(browser, lambda: "phase_centre" in text(browser))


def test_steering_without_a_server_that_steers(page, watcher, browser):
    with page(watcher, "control") as browser:
        browser.find_element(By.CSS_SELECTOR, "main button").click()
        until(browser, lambda: "--control" in text(browser))
        browser.get_log("browser")  # the 404 is said there too


def test_gains_and_delays_are_set_from_the_page(page, watcher, engines):
    """With the token, at a time stamp that no float64 has; the answer says so to the last digit."""
    sample = 2**53 + 1
    engine = engines(0, range(20), 1000)
    with (
        Telescope() as telescope,
        page(watcher, "control", lambda app: add_to(app, telescope, "a token of the tests")) as browser,
    ):
        forms = {form.get_attribute("aria-label"): form for form in browser.find_elements(By.TAG_NAME, "form")}

        def fill(name, **texts):
            for key, value in texts.items():
                field = forms[name].find_element(By.CSS_SELECTOR, f'input[data-name="{key.replace("_", " ")}"]')
                field.clear()
                field.send_keys(value)
            forms[name].find_element(By.TAG_NAME, "button").click()

        fill("gains", real_part="2")
        until(browser, lambda: "token" in forms["gains"].text)
        assert not engine.asked
        browser.get_log("browser")  # the 401 is said there too
        browser.find_element(By.CSS_SELECTOR, "input[type=password]").send_keys("a token of the tests")
        fill("gains", real_part="0.5", inputs="A1 y", from_sample=str(sample))
        until(browser, lambda: f"sample {sample} on" in forms["gains"].text)
        assert engine.asked[-1][0] == "gains"
        assert engine.asked[-1][1]["sample"] == sample and engine.asked[-1][1]["inputs"] == [3]
        forms["delays"].find_element(By.CSS_SELECTOR, 'input[data-name="inputs"]').send_keys("A0")
        field = forms["delays"].find_element(By.CSS_SELECTOR, 'input[data-name="delay, ns"]')
        field.clear()
        field.send_keys("x")
        forms["delays"].find_element(By.TAG_NAME, "button").click()
        until(browser, lambda: "is no number" in forms["delays"].text)
        field.clear()
        field.send_keys("12.5")
        forms["delays"].find_element(By.TAG_NAME, "button").click()
        until(browser, lambda: "data have it" in forms["delays"].text)
        assert engine.asked[-1][0] == "delays" and engine.asked[-1][1]["inputs"] == [0, 1]


@pytest.mark.timeout(600)
def test_a_delay_set_from_the_page_is_in_the_file(page, watcher, run):
    """From the promised sample on, to the bit what it is when a program sets it, and before it as if nothing was set."""

    def by_program(telescope):
        sample = boundary(telescope.observation, 4.2)  # a browser takes a while to open a page
        return telescope.set_delays([750e-9, 0.0, math.radians(90), 0.0], ["A1 y"], sample).sample

    def from_the_page(telescope):
        sample = boundary(telescope.observation, 4.2)  # a browser takes a while to open a page
        with page(watcher, "control", lambda app: add_to(app, telescope, "a token of the tests")) as browser:
            browser.find_element(By.CSS_SELECTOR, "input[type=password]").send_keys("a token of the tests")
            form = browser.find_element(By.CSS_SELECTOR, 'form[aria-label="delays"]')
            for name, value in (
                ("delay, ns", "750"),
                ("phase, °", "90"),
                ("inputs", "A1 y"),
                ("from sample", str(sample)),
            ):
                field = form.find_element(By.CSS_SELECTOR, f'[data-name="{name}"]')
                field.clear()
                field.send_keys(value)
            form.find_element(By.TAG_NAME, "button").click()
            until(browser, lambda: f"sample {sample} on" in form.text or "late" in form.text)
            assert f"sample {sample} on" in form.text
        return sample

    by_hand, (first, second), sample, out = run("page", from_the_page)
    programmed, _, same, _ = run("program", by_program)
    plain, _, _, _ = run("plain")
    assert sample == same
    o = load(out / "o.toml")
    change, last = sample // (o.integration_spectra * o.step), min(map(len, (by_hand, programmed, plain))) - 1
    assert 0 < change < last
    np.testing.assert_array_equal(by_hand[:last], programmed[:last])
    np.testing.assert_array_equal(by_hand[:change], plain[:change])
    turned = by_hand[change:last] != plain[change:last]
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        for p, inputs in enumerate([(2 * a, 2 * b), (2 * a + 1, 2 * b + 1), (2 * a, 2 * b + 1), (2 * a + 1, 2 * b)]):
            assert turned[:, i, :, p].any() == (3 in inputs), (a, b, p)


def test_phase_centres_and_files_are_set_from_the_page(page, watcher, engines, tmp_path):
    engine, catcher = engines(0, range(20), 1000), engines.catcher(0, tmp_path, 700)
    unit = engine.o.integration_spectra * engine.o.step
    with (
        Telescope() as telescope,
        page(watcher, "control", lambda app: add_to(app, telescope, "a token of the tests")) as browser,
    ):
        browser.find_element(By.CSS_SELECTOR, "input[type=password]").send_keys("a token of the tests")
        forms = {form.get_attribute("aria-label"): form for form in browser.find_elements(By.TAG_NAME, "form")}

        def fill(form, /, **texts):
            for key, value in texts.items():
                field = forms[form].find_element(By.CSS_SELECTOR, f'[data-name^="{key.replace("_", " ")}"]')
                if field.tag_name == "input":
                    field.clear()
                field.send_keys(value)
            forms[form].find_element(By.TAG_NAME, "button").click()

        fill("phase centre", right_ascension="12h30m", declination="here", name="M 87", file="on-M87")
        until(browser, lambda: "is no number" in forms["phase centre"].text)
        fill("phase centre", declination="-30d43m12s", from_sample=str(5 * unit))
        until(browser, lambda: f"sample {5 * unit} on" in forms["phase centre"].text)
        assert f"{tmp_path}/on-M87.uvh5" in forms["phase centre"].text
        key, value = engine.asked[-1]
        assert key == "phase_centre" and (value["ra"], value["dec"]) == pytest.approx((187.5, -30.72))
        assert catcher.asked[-1]["name"] == "on-M87" and catcher.asked[-1]["phase_centre"]["name"] == "M 87"
        fill("file", writing="stop")
        until(browser, lambda: "nothing is written" in forms["file"].text)
        assert catcher.asked[-1] == {"write": False}
        fill("file", writing="start", integration="4.5", from_sample=str(9 * unit))
        until(browser, lambda: f"sample {9 * unit} on" in forms["file"].text)
        assert catcher.asked[-1] == {"write": True, "integration": 4.5, "sample": 9 * unit}
        fill("raw samples", seconds="0.25", name="frb", inputs="A1", from_sample=str(2**53 + 1))
        until(browser, lambda: f"samples {2**53 + 1} to {2**53 + 4097}" in forms["raw samples"].text)
        assert engine.asked[-1] == ("trigger", {"name": "frb", "seconds": 0.25, "inputs": [2, 3], "sample": 2**53 + 1})
        fill("file", writing="as", integration="", from_sample="0")
        until(browser, lambda: "late: sample 0" in forms["file"].text)
        browser.get_log("browser")  # the refusal is said there too


def test_the_page_counts_as_the_server_does(page, watcher):
    """Products and codes of losses, which both sides work out."""
    shares = [1.0, 1 - 1e-5, 1 - 1e-3, 0.99, 0.5, 0.0, 1 - 1e-9]
    products = [(0, 0, 1, 1), (2, 1, 2, 0), (5, 1, 9, 0), (63, 1, 63, 1)]
    with page(watcher) as browser:
        codes, numbers = browser.execute_async_script(
            """const [shares, products, done] = arguments;
               const { lossCode } = await import("/static/losses.js");
               const { productOf } = await import("/static/view_maps.js");
               done([shares.map(lossCode), products.map((p) => productOf(...p, 2))]);""",
            shares,
            products,
        )
    assert codes == loss_codes(np.array(shares)).tolist()
    assert numbers == [product_of(*p, 2) for p in products]


def test_the_interface_is_described_without_anything_from_elsewhere(page, watcher):
    with page(watcher) as browser:
        browser.get(browser.current_url.split("#")[0] + "docs")
        until(browser, lambda: "GET /api/sight" in text(browser) and "GET /metrics" in text(browser))


def cpu_of(browser):
    """Seconds of processor time that each process of a browser has used."""
    kin, found = {browser.service.process.pid}, {}
    stats = [(int(p.parent.name), p.read_text().rpartition(")")[2].split()) for p in Path("/proc").glob("[0-9]*/stat")]
    while new := {pid for pid, words in stats if int(words[1]) in kin} - kin:
        kin |= new
    for pid, words in stats:
        if pid in kin:
            found[pid] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return found


@pytest.mark.parametrize(
    "rounds",
    [pytest.param(3, marks=pytest.mark.long), pytest.param(18, marks=[pytest.mark.soak, pytest.mark.timeout(600)])],
)
def test_64_antennas_at_20_frames_a_second(page, rounds):
    """Twenty-five looks a second of 64 antennas and 1024 bins of 4096 channels, in 18 rounds for as many as an hour has.

    What is counted: maps of all inputs over the band that the page painted, processor time that the busiest process of the
    browser and the server took for each, and the heap of the page's JavaScript. A frame each 50 ms needs no more of either
    than that; how many there are depends on who else has these cores.
    """
    random = np.random.default_rng()
    n, pols, bins, parts = 64, 2, 1024, 32
    products = pols**2 * n * (n + 1) // 2
    inputs = tuple(
        InputSight(k, f"A{k // 2}", "xy"[k % 2], 10.0, -15.0, 0.0, 0.0, dict.fromkeys(STAGES, 1.0), 0.0)
        for k in range(n * pols)
    )

    def glance():
        coarse = random.standard_normal((parts, products)) + 1j * random.standard_normal((parts, products))
        autos = [pols**2 * (a * (a + 3) // 2) + p * (pols + 1) for a in range(n) for p in range(pols)]
        coarse[:, autos] = 30.0
        return Glance(
            1, 0, 1000, 0, 4096, n, pols, random.random((n * pols, bins)).astype(np.float32),
            np.arange(bins + 1) * 4, coarse.astype(np.complex64), np.arange(parts + 1) * 128,
            np.ones(n * pols, np.float32), np.zeros((0, bins), np.complex64), np.zeros(0, np.int64),
        )  # fmt: skip

    watcher = Watched(look(engine(), inputs=inputs), None, [glance() for _ in range(4)])
    with page(watcher, "bandpass") as browser, watcher.moving(25):
        browser.execute_script(
            """window.maps = 0;
               const put = CanvasRenderingContext2D.prototype.putImageData;
               CanvasRenderingContext2D.prototype.putImageData = function (...all) {
                 if (this.canvas.width === 1024) window.maps++;
                 return put.apply(this, all);
               };"""
        )

        def drawn():
            return browser.execute_script("return window.maps")

        until(browser, lambda: painted(browser) and min(painted(browser)) > 100)
        rates, heaps, drawing, serving = [], [], [], []
        for _ in range(rounds):
            before, begun, used, served = drawn(), time.monotonic(), cpu_of(browser), time.process_time()
            time.sleep(10)
            frames = drawn() - before
            rates.append(frames / (time.monotonic() - begun))
            drawing.append(max(cpu - used.get(pid, 0.0) for pid, cpu in cpu_of(browser).items()) / frames)
            serving.append((time.process_time() - served) / frames)
            browser.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
            heaps.append(browser.execute_script("return performance.memory.usedJSHeapSize") / 2**20)
        print(f"frames a second {np.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f}); heap {heaps} MiB")
        print(f"processor time a frame: browser {np.round(drawing, 4)} s, server {np.round(serving, 4)} s")
        assert min(drawing) < 0.05 and min(serving) < 0.05 and max(rates) >= 6
        assert heaps[-1] < heaps[len(heaps) // 2] + 5

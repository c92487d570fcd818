"""The accessibility checks: a correct page has no findings, and each rule finds the page that breaks it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.checks import check

CORRECT = """<!doctype html>
<html lang="en">
<head>
<title>Jobs</title>
<style>
  :root { color-scheme: light dark; }
  body { color: #222; background: #fff; }
  a { color: #0645ad; }
  a:focus-visible, button:focus-visible, input:focus-visible { outline: 2px solid #0645ad; }
  .big { font-size: 24px; color: #949494; }
  .badge { background: rgba(0, 0, 0, 0.8); color: #fff; }
  @media (prefers-color-scheme: dark) { body { color: #ddd; background: #111; } a { color: #8ab4f8; } }
</style>
</head>
<body>
<nav><a href="#a">Lanes</a> <a href="#b"><svg aria-hidden="true"></svg>Cycles</a></nav>
<main>
<h1>Jobs</h1>
<form><label for="type">Type</label><input id="type" value="x"><label>Lane <input></label>
<input aria-label="Search"><input type="hidden" name="token"><button>Filter</button>
<input type="submit" value="Go"></form>
<h2>Dead</h2>
<table><thead><tr><th>Id</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>
<h3>Why</h3>
<p class="big">Large text may be paler.</p>
<p><span class="badge">dead</span> <button disabled style="color: #ccc">Not now</button></p>
<img alt="" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
<svg role="img"><title>Jobs a minute</title><text fill="currentColor" y="10">12</text></svg>
<h2>Done</h2>
</main>
</body>
</html>
"""

BROKEN = {
    "language": ('<html lang="en">', "<html>"),
    "title": ("<title>Jobs</title>", "<title> </title>"),
    "main": ("main>", "div>"),
    "sideways scroll": ("<h2>Done</h2>", '<h2>Done</h2><div style="width: 2000px">wide</div>'),
    "doubled id": ("<table>", '<table id="type">'),
    "one h1": ("<h2>Done</h2>", "<h1>Done</h1>"),
    "heading order": ("<h2>Dead</h2>", ""),
    "empty heading": ("<h2>Done</h2>", "<h2></h2>"),
    "label": ('<input aria-label="Search">', '<input placeholder="Search">'),
    "link name": ("</svg>Cycles</a>", "</svg></a>"),
    "button name": ("<button>Filter</button>", "<button><svg aria-hidden=true></svg></button>"),
    "alternative text": ('<img alt="" ', "<img "),
    "table headers": ("<th>Id</th>", "<td>Id</td>"),
    "empty header": ("<th>Id</th>", "<th>Id</th><th></th>"),
    "tab order": ("<button>Filter", '<button tabindex="3">Filter'),
    "scrolled by keyboard": ("<h3>", '<div style="overflow: auto; height: 1em">a<br>b<br>c</div><h3>'),
    "contrast": ("color: #222;", "color: #888;"),
    "visible focus": ("outline: 2px solid #0645ad", "outline: none"),
}


@pytest.fixture(scope="module")
def shared_page(browser: Browser) -> Iterator[Page]:
    with browser.new_context() as context:
        yield context.new_page()


@pytest.fixture
def page(shared_page: Page) -> Page:
    """Shared: each test sets its own content."""
    shared_page.emulate_media(color_scheme="light")
    return shared_page


@pytest.fixture
def correct(page: Page) -> Page:
    page.set_content(CORRECT)
    return page


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_correct_page_has_no_findings(correct: Page, colours: str) -> None:
    """In both themes."""
    correct.emulate_media(color_scheme="dark" if colours == "dark" else "light")

    assert check(correct) == []


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_finds_what_breaks_it(page: Page, rule: str) -> None:
    """That rule, and no other."""
    old, new = BROKEN[rule]
    assert old in CORRECT
    page.set_content(CORRECT.replace(old, new))

    assert {each.rule for each in check(page)} == {rule}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rgba(0, 0, 0, 0.8)", "rgba(0, 0, 0, 0.2)"),  # a light badge below light text
        ('<p class="big">', '<p class="big" style="font-size: 20px">'),  # not large any more
        ("<h3>Why</h3>", '<h3 style="opacity: 0.4">Why</h3>'),
        ('fill="currentColor"', 'fill="#aaa"'),  # the text of a chart
        ('<input id="type"', '<input id="type" style="color: #999"'),
        ("<label>Lane <input>", '<style>::placeholder { color: #aaa }</style><label>Lane <input placeholder="mail">'),
        ("background: #fff;", "background: linear-gradient(#fff, #eee);"),  # unknown
    ],
)
def test_contrast_is_computed_from_visible_colours(page: Page, old: str, new: str) -> None:
    """Through transparent layers, in charts and in inputs."""
    assert old in CORRECT
    page.set_content(CORRECT.replace(old, new))

    assert {each.rule for each in check(page)} == {"contrast"}


def test_the_dark_theme_is_checked_with_its_own_colours(page: Page) -> None:
    """Contrast may fail in one theme only."""
    page.set_content(CORRECT.replace("color: #ddd; background: #111", "color: #333; background: #111"))
    light = check(page)
    page.emulate_media(color_scheme="dark")

    assert (light, {each.rule for each in check(page)}) == ([], {"contrast"})

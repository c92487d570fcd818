"""Text from HTML and HTML from text, for messages that have only one of them.

With libxml2: the time of the standard library's html.parser grows with the square of malformed input.
"""

import re
from html import escape

from lxml import etree

HIDDEN = frozenset({"script", "style", "head", "title", "template"})
BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "dd", "div", "dl", "dt", "fieldset", "figure", "footer", "form",
    "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table",
    "tr", "ul",
})  # fmt: skip
PARAGRAPHS = frozenset({"p", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table"})
URL = re.compile(r"https?://[^\s<>\"']+")


def text_from_html(html: str) -> str:
    """Paragraphs, line breaks, list items and the addresses of links stay."""
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True)
    tree = etree.fromstring(html.encode(), parser) if html.strip() else None
    if tree is None:
        return ""
    reader = _TextReader()
    for event, element in etree.iterwalk(tree, events=("start", "end", "comment", "pi")):
        if event == "start":
            reader.start(str(element.tag), element.get("href") or "", element.text or "")
        else:
            reader.end(str(element.tag) if event == "end" else "", element.tail or "")
    return reader.result()


def html_from_text(text: str) -> str:
    """Escaped, with links, in paragraphs."""
    paragraphs = re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n").strip("\n"))
    return "\n".join(f"<p>{'<br>'.join(map(_linked, each.split(chr(10))))}</p>" for each in paragraphs)


def _linked(line: str) -> str:
    parts, end = [], 0
    for found in URL.finditer(line):
        url = escape(found.group())
        parts += [escape(line[end : found.start()]), f'<a href="{url}">{url}</a>']
        end = found.end()
    return "".join([*parts, escape(line[end:])])


class _TextReader:
    """Collects the shown text, element by element."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._hidden = 0  # open elements whose content is not shown
        self._links: list[tuple[str, int]] = []  # of open elements, with the position where their text begins

    def start(self, tag: str, link: str, text: str) -> None:
        self._hidden += tag in HIDDEN
        if tag == "br":
            self._parts.append("\n")
        elif tag in BLOCKS:
            self._parts.append("\n\n" if tag in PARAGRAPHS else "\n")
        if tag == "li":
            self._parts.append("- ")
        if tag == "a":
            self._links.append((link, len(self._parts)))
        self._add(text)

    def end(self, tag: str, tail: str) -> None:
        self._hidden -= tag in HIDDEN
        if tag == "a":
            self._end_link(*self._links.pop())
        elif tag in BLOCKS and tag != "li":
            self._parts.append("\n\n" if tag in PARAGRAPHS else "\n")
        elif tag in ("td", "th"):
            self._parts.append(" ")
        self._add(tail)

    def result(self) -> str:
        """No pattern repeats a space and a line break together: that would take quadratic time."""
        spaced = re.sub(r" ?\n ?", "\n", re.sub(r"[ \t]+", " ", "".join(self._parts)))
        return re.sub(r"\n{3,}", "\n\n", spaced).strip()

    def _add(self, text: str) -> None:
        if not self._hidden:
            self._parts.append(re.sub(r"\s+", " ", text))

    def _end_link(self, link: str, begin: int) -> None:
        is_shown = link in "".join(self._parts[begin:])
        if URL.fullmatch(link) and not is_shown and not self._hidden:
            self._parts.append(f" ({link})")

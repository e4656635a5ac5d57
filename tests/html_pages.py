"""Pages for notebooks as a browser would take them: read, and held against the elements that they may have."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "link", "meta", "area", "base", "col", "embed", "source", "track", "wbr"}
ALLOWED = {
    *("style", "div", "span", "header", "details", "summary", "dl", "dt", "dd", "code", "u", "b"),
    *("table", "tr", "th", "td", "svg", "g", "polygon", "path", "text"),
}
ATTRIBUTES = {
    *("class", "open", "colspan", "role", "aria-label", "width", "height", "viewbox", "xmlns", "transform"),
    *("points", "d", "x", "y"),
}

PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</dd></dl><iframe src='javascript:alert(1)'>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
    "</style><script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "<!--",
    "]]>",
    "&lt;script&gt;",
    "\u202egnp.exe",
    "\x00\x1b[31m",
    "{{7*7}}${7*7}",
]


class Page(HTMLParser):
    """The elements, attributes and text of a page; elements that are left open fail."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.stack: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.stack:
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    @property
    def text(self) -> str:
        return " ".join(self.words)


def check(page: str) -> Page:
    """The page is whole and holds nothing but the elements and attributes that pages are made of."""
    read = Page(page)
    assert set(read.tags) <= ALLOWED
    assert read.attributes <= ATTRIBUTES
    return read

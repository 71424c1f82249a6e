"""Read a page as a browser without style and script would: a tree of elements, strict about nesting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

BLOCKS = frozenset(
    ["td", "th", "tr", "dt", "dd", "li", "p", "div", "caption", "text", "h1", "h2", "h3", "h4", "h5", "h6"]
)

VOID = frozenset({"meta", "br", "wbr", "hr", "img", "input", "link"})


@dataclass
class Element:
    """One element with its attributes, its children and the text directly in it."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside, with white space collapsed."""
        return " ".join("".join(self.pieces()).split())

    @property
    def raw_text(self) -> str:
        """All text inside, as it would be copied."""
        return self._raw()

    @property
    def classes(self) -> list[str]:
        """The class names."""
        return self.attributes.get("class", "").split()

    def pieces(self) -> Iterator[str]:
        """Yield the text in pieces, with a space around what stands on its own."""
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from (" ", child.text, " ") if child.tag in BLOCKS else child.pieces()

    def _raw(self) -> str:
        return "".join(child if isinstance(child, str) else child.raw_text for child in self.children)

    def walk(self) -> Iterator[Element]:
        """Yield this element and everything inside, in document order."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, tag: str, css_class: str = "") -> list[Element]:
        """Return every element inside with this tag, and this class when one is given."""
        return [e for e in self.walk() if e.tag == tag and (not css_class or css_class in e.classes)]

    def by_id(self, name: str) -> Element:
        """Return the one element with this id."""
        (found,) = [e for e in self.walk() if e.attributes.get("id") == name]
        return found

    def section(self, name: str) -> Element:
        """Return the section that is labelled by the heading with this id."""
        (found,) = [e for e in self.all("section") if e.attributes.get("aria-labelledby") == name]
        return found


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("root", {})
        self.open = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs)
        if tag not in VOID:
            self.open = self._last()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.tag == tag, f"</{tag}> closes <{self.open.tag}>"
        assert self.open.parent is not None
        self.open = self.open.parent

    def handle_data(self, data: str) -> None:
        self.open.children.append(data)

    def _add(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        self.open.children.append(Element(tag, {key: value or "" for key, value in attrs}, self.open))

    def _last(self) -> Element:
        last = self.open.children[-1]
        assert isinstance(last, Element)
        return last


def parse(page: str) -> Element:
    """Return the root; a tag that is not closed, or closed out of order, is an AssertionError."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert builder.open is builder.root, f"<{builder.open.tag}> is never closed"
    return builder.root

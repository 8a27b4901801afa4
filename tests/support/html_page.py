"""A page as a browser reads it, and text that must be escaped in it."""

from html.parser import HTMLParser

HOSTILE = "</style></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\x00\x1b\u202e{{ 7 * 7 }}"


class Page(HTMLParser):
    """The tags, attributes, anchors, links and text that a browser would see."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, name: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(name)) is not None]

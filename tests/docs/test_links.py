"""Links between pages lead to a page, and to a heading on it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\]\((?P<page>[^)#:\s]*)(?:#(?P<heading>[^)\s]+))?\)")
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """The headings of a page as links spell them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _broken(page: Path) -> list[str]:
    found = []
    for link in LINK.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
        target = page.parent / link["page"] if link["page"] else page
        if not target.exists() or (link["heading"] and link["heading"] not in _anchors(target)):
            found.append(f"{page.relative_to(ROOT)}: {link[0][1:]}")
    return found


def test_every_link_leads_to_a_heading_that_there_is() -> None:
    assert [broken for page in PAGES for broken in _broken(page)] == []


def test_commands_to_paste_install_from_a_checkout_as_long_as_nothing_is_published() -> None:
    """A name that an index does not know, or knows as another program, is of no use to a newcomer."""
    releasing = ROOT / "docs" / "releasing.md"
    assert "Ferryman is on no package index yet." in releasing.read_text(encoding="utf-8")
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    pasted = {
        page: "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)) for page, text in texts.items()
    }
    assert [page.name for page, commands in pasted.items() if re.search(r"install .*\bferryman\b", commands)] == []
    local = {page for page, text in texts.items() if "pip install '.[" in text and page != releasing}
    assert {page for page in local if page.name not in texts[releasing]} == set(), (
        "to be changed on the day of the release"
    )


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        waiting += [page.parent / link["page"] for link in LINK.finditer(page.read_text(encoding="utf-8"))]
    assert (
        sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md") if page.resolve() not in reached)
        == []
    )

"""Whether what pages link to is there: files by relative path, and the headings that a fragment names."""
import pathlib
import re


def anchors(page):
    """The fragments of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def dead_links(root):
    """A line for each relative link of a page below `root` that leads nowhere, or out of `root`."""
    root, dead = pathlib.Path(root).resolve(), []
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, fragment = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.is_relative_to(root) or not target.exists():
                dead.append(f"{page.relative_to(root)}: {link} is not there")
            elif fragment and fragment not in anchors(target):
                dead.append(f"{page.relative_to(root)}: {link} has no such heading")
    return dead if pages else ["there are no pages"]

"""A hook of MkDocs: the built site must load nothing from elsewhere. A link that a reader may follow loads nothing."""

import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

# MkDocs counts what is logged below its own name, and in strict mode fails by it.
log = logging.getLogger("mkdocs.hooks.offline_site")

ELSEWHERE = r"""["']?(?:https?:)?//[^\s"'>)]+"""
SOURCE = rf"<(?:audio|embed|iframe|img|script|source|video)\b[^>]*\bsrc={ELSEWHERE}"
LINK = rf"<link\b(?![^>]*\brel=\"?canonical)[^>]*\bhref={ELSEWHERE}"
LOADING = {
    ".html": re.compile(f"{SOURCE}|{LINK}", re.IGNORECASE),
    ".css": re.compile(rf"url\(\s*{ELSEWHERE}|@import\s+{ELSEWHERE}", re.IGNORECASE),
}


def on_post_build(config: Mapping[str, object]) -> None:
    """Warn of each page or style sheet that loads something from elsewhere."""
    site = Path(str(config["site_dir"]))
    for file in sorted(site.rglob("*")):
        for loading in loaded_from_elsewhere(file):
            log.warning("%s loads from elsewhere: %s", file.relative_to(site), loading)


def loaded_from_elsewhere(file: Path) -> Iterator[str]:
    """What a file of the site makes a browser fetch from another host."""
    pattern = LOADING.get(file.suffix)
    if pattern is not None:
        yield from pattern.findall(file.read_text(errors="replace"))

"""Keyword files: all of one, or nothing and each bad row by its line."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_rankguard.rank.errors import BadImport, BadKeyword
from airflow_rankguard.rank.importing import read_keywords
from airflow_rankguard.rank.keywords import normalise_keyword


def bad_rows(content: bytes) -> list[tuple[int, str]]:
    """Read a bad file and give what it is refused for."""
    with pytest.raises(BadImport) as caught:
        read_keywords(content)
    return [(row.line, row.reason) for row in caught.value.rows]


@pytest.mark.parametrize(
    "content",
    [
        b"laptop\ntv\n",
        b"keyword\nlaptop\ntv",
        b"\xef\xbb\xbfKeyword\r\nLAPTOP\r\n\r\n tv \r\n",
        b"volume,Keywords\n10,laptop\n20,tv\n",
        b'\n"laptop"\n"tv"\n',
    ],
)
def test_a_file_is_read_with_or_without_a_header(content: bytes) -> None:
    """Header, byte order mark, line ends, quotes and blank lines make no difference."""
    assert read_keywords(content) == ("laptop", "tv")


def test_each_bad_row_is_reported_by_its_line() -> None:
    """Every reason at once, and lines counted as an editor counts them, quoted line breaks included."""
    rows = ["keyword", "tv", '""', "x" * 701, "TV ", "a\u200bb", '"two', 'lines"', "ok", ",", "tv"]
    assert bad_rows("\n".join(rows).encode()) == [
        (3, "empty"),
        (4, "longer than 700 characters (701)"),
        (5, "the same keyword as line 2"),
        (6, "invisible character U+200B"),
        (7, "invisible character U+000A"),
        (10, "empty"),
        (11, "the same keyword as line 2"),
    ]


def test_a_comma_needs_quotes_or_a_header() -> None:
    """A second column without a header is not silently lost."""
    assert read_keywords(b'"tv, 55 inch"\n') == ("tv, 55 inch",)
    ((line, reason),) = bad_rows(b"tv\ntv, 55 inch\n")
    assert (line, reason.split(";")[0]) == (2, "several columns without a header")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"keyword\n"])
def test_a_file_without_keywords_is_refused(content: bytes) -> None:
    """An empty file is a mistake, above all where it would replace the keywords there are."""
    assert bad_rows(content) == [(1, "no keyword in the file")]


def test_what_cannot_be_read_is_named_by_line() -> None:
    """A wrong encoding and an open quote are reported, not guessed at."""
    assert bad_rows(b"tv\nlapt\xf6p\n") == [(2, "not UTF-8")]
    ((line, reason),) = bad_rows(b'tv\nradio\n"open\n')
    assert (line, reason.split(":")[0]) == (3, "cannot be read from here on")


@given(st.lists(st.text(max_size=20)))
def test_a_written_file_is_read_back_or_refused(cells: list[str]) -> None:
    """What csv writes under a header comes back in order, exactly when every row is good and new."""
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["keyword"], *([cell] for cell in cells)])
    try:
        expected = [normalise_keyword(cell) for cell in cells]
    except BadKeyword:
        expected = []
    content = file.getvalue().encode("utf-8", "surrogatepass")
    if expected and len(expected) == len(set(expected)):
        assert list(read_keywords(content)) == expected
    else:
        assert bad_rows(content)

"""A .env file without quirks is read without python-dotenv, and gives the same."""

from io import StringIO

from dotenv.parser import parse_stream
from hypothesis import given
from hypothesis import strategies as st

from mayfly.settings.sources import plain_variables
from tests.hypothesis_profiles import in_full

PLAIN_LINES = ["A=1", "B='x y'", 'C="a#b"', "E=#x", "# a=b", "L=a'b", "N=", "O=''", "P=$A", "export H=1", "export=1"]
ODD_LINES = [
    "D=a # b",
    "F= x",
    "G",
    "export  H=1",
    "I=\\n",
    "J='a\\'b'",
    'K="a\\nb"',
    "M='a",
    "'Q'=1",
    "\ufeffR=1",
    "é=1",
]

written_lines = st.builds("{}={}".format, st.sampled_from(["A", "export B", "C_1", "é", "D "]), st.text(max_size=12))
wild_lines = st.text("A=' \"#\\\n\t\x0b\x1c\u2028", max_size=12)
dotenv_texts = st.lists(st.sampled_from(PLAIN_LINES + ODD_LINES) | written_lines | wild_lines, max_size=5).map(
    "\n".join
)


@in_full(500)
@given(dotenv_texts)
def test_a_plain_dotenv_file_is_read_as_its_parser_reads_it(text: str) -> None:
    """Or not at all."""
    text = StringIO(text, newline=None).read()  # as a file is read: every kind of line end becomes the same one
    plain = plain_variables(text)
    if plain is None:
        return

    bindings = list(parse_stream(StringIO(text)))

    assert not any(binding.error for binding in bindings)
    assert plain == {each.key: each.value or "" for each in bindings if each.key is not None}


def test_the_usual_lines_are_plain() -> None:
    """What most files have needs no parser."""
    url = "DATABASE_URL=mysql://u:p%40#$@h/d"
    text = f"# settings\n\nBATCH_SIZE=5\nexport LOG_DIR='/var/log/my app'\n{url}\nA=\"b c\"\n"

    assert plain_variables(text) == {
        "BATCH_SIZE": "5",
        "LOG_DIR": "/var/log/my app",
        "DATABASE_URL": "mysql://u:p%40#$@h/d",
        "A": "b c",
    }

"""Many tables are parsed together, and each one is as if it had been parsed on its own."""

from io import BytesIO

import numpy as np
import pandas as pd
import pytest

from fedbench.store.columns import parse_together

PLAIN = b"round,gamma,r\n1,0.9,\n2,0.95,3e-5\n"


def alone(content: bytes) -> pd.DataFrame:
    return pd.read_csv(BytesIO(content))


@pytest.mark.parametrize(
    "other",
    [
        b"round,gamma,r\n1,0.123456789012345678,nan\n2,inf,-1\n3,1e-300,2.5",
        b"round,gamma,r\n1,1,2\n2,3,4\n",  # whole numbers stay whole
        b"round,gamma,r\n5,,\n",
        b"round,r\n1,0.5\n",
    ],
)
def test_a_table_has_the_numbers_and_types_that_it_has_on_its_own(other: bytes) -> None:
    contents = [PLAIN, other, PLAIN]
    for content, columns in zip(contents, parse_together(contents), strict=True):
        assert columns is not None
        pd.testing.assert_frame_equal(columns.frame(), alone(content), check_exact=True)


@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"round,gamma,r",
        b"round,gamma,r\n",
        b"round\n1\n",
        b"round,round,r\n1,2,3\n",
        b'round,gamma,r\n1,"2,3\n',
        b"round,gamma,r\n1,2,3,4\n2,3\n",
        b"round,gamma,r\n1,2,3\n\n2,3,4\n",
        b"round,gamma,r\n1,x,3\n",
        b"round,gamma,r\r\n1,2,3\r\n",
    ],
)
def test_what_is_not_a_plain_table_is_left_to_its_own_parsing_and_spoils_no_other_table(other: bytes) -> None:
    first, damaged, last = parse_together([PLAIN, other, PLAIN])
    assert damaged is None
    for columns in (first, last):
        assert columns is not None
        pd.testing.assert_frame_equal(columns.frame(), alone(PLAIN), check_exact=True)


@pytest.mark.parametrize("cell", [b"1-1", b"e", b"99999999999999999999"])
def test_a_table_that_is_no_table_of_numbers_after_all_leaves_similar_ones_to_their_own_parsing(cell: bytes) -> None:
    similar = [PLAIN, b"round,gamma,r\n1,0.5,\n" + cell + b",0.5,\n", PLAIN]
    assert parse_together(similar) == [None, None, None]


def test_columns_are_read_only_and_a_frame_of_them_is_not() -> None:
    (columns,) = parse_together([PLAIN])
    assert columns is not None
    assert list(columns) == ["round", "gamma", "r"]
    with pytest.raises(ValueError, match="read-only"):
        columns["gamma"][0] = 7.0
    frame = columns.frame()
    frame.loc[0, "gamma"] = 7.0
    assert np.array_equal(columns["gamma"], [0.9, 0.95])

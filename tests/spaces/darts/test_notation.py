"""The notation of the DARTS papers: read without being run, and written back."""

import random

import pytest

from smallgroup.spaces.darts import CellGenotype, DartsGenotype, Edge, notation
from smallgroup.spaces.darts.published import published

NORMAL = "[('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 1), ('skip_connect', 0), ('skip_connect', 0), ('dil_conv_3x3', 2)]"  # noqa: E501
REDUCE = "[('max_pool_3x3', 0), ('max_pool_3x3', 1), ('skip_connect', 2), ('max_pool_3x3', 1), ('max_pool_3x3', 0), ('skip_connect', 2), ('skip_connect', 2), ('max_pool_3x3', 1)]"  # noqa: E501
SECOND_ORDER = f"Genotype(normal={NORMAL}, normal_concat=[2, 3, 4, 5], reduce={REDUCE}, reduce_concat=[2, 3, 4, 5])"


@pytest.mark.parametrize("name", published())
def test_published_genotypes_there_and_back(name: str) -> None:
    genotype = published()[name]
    if any(len(edges) != 2 for cell in (genotype.normal, genotype.reduce) for edges in cell.nodes):
        # Nodes with one edge or with three, for which the notation has no room.
        assert name.startswith(("FairDARTS", "BayesNAS"))
        with pytest.raises(ValueError, match="every node has two edges"):
            notation.to_text(genotype)
        return
    assert notation.parse(notation.to_text(genotype)) == genotype


@pytest.mark.parametrize(
    "text",
    [
        SECOND_ORDER,
        f"DARTS_V2 = {SECOND_ORDER}",
        f"\n\n  DARTS_V2 = {SECOND_ORDER}  \n",
        SECOND_ORDER.replace("[2, 3, 4, 5]", "range(2, 6)"),
        SECOND_ORDER.replace("[2, 3, 4, 5]", "(2, 3, 4, 5)"),
        SECOND_ORDER.replace("'", '"'),
        SECOND_ORDER.replace(", ", ",\n    ").replace(")]", "),\n]"),
        f"Genotype({NORMAL}, [2, 3, 4, 5], {REDUCE}, [2, 3, 4, 5])",
        f"Genotype({NORMAL}, range(2, 6), reduce_concat=range(2, 6), reduce={REDUCE})",
    ],
)
def test_all_ways_to_write_it(text: str) -> None:
    assert notation.parse(text) == published()["DARTS_V2"]


def test_the_name_in_the_text() -> None:
    assert notation.parse_named(f"mine = {SECOND_ORDER}")[0] == "mine"
    assert notation.parse_named(SECOND_ORDER)[0] is None
    assert notation.to_text(published()["DARTS_V2"]) == SECOND_ORDER


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold one genotype, but it holds 0"),
        ("1; 2", "made of names, numbers and brackets, but has ';'"),
        (f"{SECOND_ORDER}\n{SECOND_ORDER}", "must hold one genotype, but it holds 2"),
        ("Genotype(", "written like Genotype.*, but line 1: '\\(' was never closed"),
        ("genotype()", "written like Genotype"),
        ("a = b = Genotype()", "written like Genotype"),
        ("import os", "written like Genotype"),
        ("Genotype", "written like Genotype"),
        ("Genotype()", "normal is missing"),
        ("Genotype(1, 2, 3, 4, 5)", "has the arguments normal, .* but got 5"),
        ("Genotype(1, normal=1)", "takes every argument once, but normal is repeated"),
        ("Genotype(normal=1, normal=1)", "takes every argument once|repeated"),
        (SECOND_ORDER.replace("normal_concat", "concat"), "normal_concat is missing"),
        (SECOND_ORDER[:-1] + ", name='x')", "only, but has 'name'"),
        ("__import__('os')", "written like Genotype"),
        ("Genotype(exec('1'))", "something else"),
        ("Genotype(normal=open)", "something else"),
        ("Genotype(normal=[not 1])", "something else"),
        ("Genotype(normal=[1or 2])", "something else"),
        ("Genotype(normal=b'a')", "something else"),
        ("Genotype(normal=().x)", "but has '.'"),
        (SECOND_ORDER.replace("[2, 3, 4, 5]", "range(2, 10000000000)"), "something else"),
        (SECOND_ORDER.replace("[2, 3, 4, 5]", "range(6)"), "something else"),
        (SECOND_ORDER.replace("[2, 3, 4, 5]", "[]"), "at least one node"),
        (SECOND_ORDER.replace("[2, 3, 4, 5]", "[2, 2]"), "a node once"),
        (SECOND_ORDER.replace("[2, 3, 4, 5]", "[2, 9]"), "it names 9"),
        (SECOND_ORDER.replace("2)", "7)"), "takes its input from node 7, which is not there"),
        (SECOND_ORDER.replace("2)", "5)"), "has a cycle: node 5 takes its input from node 5"),
        (SECOND_ORDER.replace("2)", "True)"), "must be a whole number, but got True"),
        (SECOND_ORDER.replace("2)", "0x" + "f" * 50 + ")"), "must be a whole number, but got a very large number"),
        (SECOND_ORDER.replace("dil_conv_3x3", "none"), "unknown operation 'none'"),
        (SECOND_ORDER.replace("dil_conv_3x3", "conv_9x9"), "node 5 of the normal cell has an unknown operation"),
        (SECOND_ORDER.replace("('dil_conv_3x3', 2)", "'dil_conv_3x3'"), "must be a pair of operation and source"),
        (SECOND_ORDER.replace(", ('dil_conv_3x3', 2)", ""), "the normal cell must list two edges per node, .* lists 7"),
        (SECOND_ORDER.replace("('skip_connect', 0), ('dil_conv_3x3', 2)", ""), "must have 4 nodes"),
        ("(" * 100_000, "at most 10,000 characters, but got 100,000"),
        ("[" * 5_000 + "]" * 5_000, "at most 4 nested brackets"),
        ("Genotype(" + "not " * 2_000 + "1)", "something else|written like"),
        ("not " * 2_400 + "1", "written like Genotype"),
        ("Genotype(" + "9" * 9_000 + ")", "written like Genotype|very large"),
    ],
)
def test_what_is_no_genotype_is_refused_in_a_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        notation.parse(text)
    assert type(caught.value) is ValueError
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_nodes_without_two_edges_cannot_be_written() -> None:
    one, two = (Edge("skip_connect", 0),), (Edge("skip_connect", 0), Edge("skip_connect", 1))
    genotype = DartsGenotype(CellGenotype((two,) * 4, (2, 3, 4, 5)), CellGenotype((two, one, two, two), (2, 3, 4, 5)))
    with pytest.raises(ValueError, match="every node has two edges, but node 3 of the reduce cell has 1"):
        notation.to_text(genotype)


def test_damaged_texts_give_value_errors_only() -> None:
    draw = random.Random(1)
    letters = "()[],='\" \n\t\\\0#.:-+*{}x029éGNr"
    refused = 0
    for _ in range(3_000):
        text = list(draw.choice((SECOND_ORDER, f"NAME = {SECOND_ORDER}")))
        for _ in range(draw.randint(1, 4)):
            place, width = draw.randrange(len(text)), draw.choice((0, 1, 1, 12))
            text[place : place + width] = draw.choices(letters, k=draw.randint(0, 2))
        try:
            notation.parse("".join(text))
        except ValueError as error:
            assert type(error) is ValueError  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
            refused += 1
    assert 1_500 < refused < 3_000

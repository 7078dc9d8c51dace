"""The rows of the paper's Tables 1 to 3: every differentiable search is one here, every other network a reference."""

import json

import pytest

from smallgroup import recipes
from smallgroup.cli import main
from smallgroup.spaces.genotypes import published

SEARCHES = {
    1: """DARTS-2nd, GDAS, R-DARTS, DARTS+, DropNAS, DARTS(1st), DARTS(1st) + SGL, DARTS-, DARTS- + SGL, P-DARTS,
        P-DARTS + SGL, PC-DARTS, PC-DARTS + SGL""",
    2: """R-DARTS, GDAS, SNAS, DARTS+, BayesNAS, DARTS-2nd, MergeNAS, NoisyDARTS, ASAP, SDARTS, DropNAS, FairDARTS,
        DrNAS, DARTS(1st), DARTS(1st) + SGL, DARTS-, DARTS- + SGL, PC-DARTS, PC-DARTS + SGL, P-DARTS, P-DARTS + SGL""",
    3: """SNAS-CIFAR10, BayesNAS-CIFAR10, PARSEC-CIFAR10, GDAS-CIFAR10, DSNAS-ImageNet, SDARTS-ADV-CIFAR10,
        PC-DARTS-CIFAR10, ProxylessNAS-ImageNet, FairDARTS-CIFAR10, FairDARTS-ImageNet, DrNAS-ImageNet, DARTS+-ImageNet,
        DARTS--ImageNet, DARTS+-CIFAR100, DARTS-2nd-CIFAR10, DARTS-1st-CIFAR10, SGL-DARTS-1st-CIFAR10, P-DARTS-CIFAR10,
        SGL-P-DARTS-CIFAR10, P-DARTS-CIFAR100, SGL-P-DARTS-CIFAR100, PC-DARTS-ImageNet, SGL-PC-DARTS-ImageNet""",
}
"""As printed, once where the paper has both the published and its own numbers of a method."""
REFERENCES = {
    1: """
        ResNet     22.10  1.7   -
        DenseNet   17.18  25.6  -
        PNAS       19.53  3.2   150
        ENAS       19.43  4.6   0.5
        AmoebaNet  18.93  3.1   3150
    """,
    2: """
        DenseNet     3.46         25.6  -
        HierEvol     3.75 ± 0.12  15.7  300
        NAONet-WS    3.53         3.1   0.4
        PNAS         3.41 ± 0.09  3.2   225
        ENAS         2.89         4.6   0.5
        NASNet-A     2.65         3.3   1800
        AmoebaNet-B  2.55 ± 0.05  2.8   3150
        GTN          2.42 ± 0.03  97.9  0.67
    """,
    3: """
        Inception-v1        30.2  10.1  6.6  -
        MobileNet           29.4  10.5  4.2  -
        ShuffleNet 2x (v1)  26.4  10.2  5.4  -
        ShuffleNet 2x (v2)  25.1  7.6   7.4  -
        NASNet-A            26.0  8.4   5.3  1800
        PNAS                25.8  8.1   5.1  225
        MnasNet-92          25.2  8.0   4.4  1667
        AmoebaNet-C         24.3  7.6   6.4  3150
    """,
}


@pytest.mark.parametrize("table", [1, 2, 3])
def test_every_differentiable_search_of_a_table_is_a_row(table: int) -> None:
    printed = [name.strip() for name in SEARCHES[table].split(",")]
    rows = [row.name for row in recipes.rows() if row.recipe == "paper" and row.table == table]
    assert sorted(rows) == sorted(printed)
    assert not {one.name for one in recipes.references() if one.table == table} & {*printed}


@pytest.mark.parametrize("table", [1, 2, 3])
def test_references_are_as_printed(table: int) -> None:
    printed = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in REFERENCES[table].splitlines()]
    found = []
    for one in (one for one in recipes.references() if one.table == table):
        top5 = [one.test_error_top5] if one.test_error_top5 else []
        found.append([one.name, one.test_error, *top5, one.parameters, one.search_days or "-"])
        assert (table == 3) == bool(top5)
        assert one.cell is None or one.cell in published()
    assert found == [line for line in printed if line]


def test_references_are_listed_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "references", "--json"]) == 0
    listed = {one["name"]: one["about"] for one in json.loads(capsys.readouterr().out)}
    assert len(listed) == len(recipes.references()) == 21
    assert listed["table 3, NASNet-A"] == (
        "test error 26.0 %, top-5 8.4 %, 5.3 M parameters, 1800 GPU days; found by reinforcement learning "
        "(Zoph et al. 2018); to train: NASNet_A"
    )
    assert listed["table 1, ResNet"] == "test error 22.10 %, 1.7 M parameters; designed by hand (He et al. 2016)"

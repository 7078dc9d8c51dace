"""The public names: who removes or renames one breaks programs of users, and says so in the changelog."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PUBLIC = {
    "smallgroup": (
        "Config __version__ draw_report evaluate export load on_ranks predict run search search_seeds train "
        "train_controls train_mutually"
    ),
    "smallgroup.group": (
        "Apply Classification DenseClassification Exchange GaussianRegression Labeler Learner LearnerReport "
        "LocalExchange ModuleApply MultiLabel NonFiniteError Optimizers PeerError Phase RankExchange Regression "
        "SmallGroup StepReport Task step_derivative"
    ),
    "smallgroup.methods": (
        "METHODS Architecture ArchitectureOptimizer Continue Darts DartsMinus Decision EpochEnd FairDarts Gdas "
        "Measured Method Noise OperationGradients PDarts PcDarts Progress Rebuild Relaxed Rollback Stop register"
    ),
    "smallgroup.spaces": (
        "FULL GROUND_TRUTHS SEARCH SPACES DerivedNetwork Genotype GroundTruth ImageSpec Kind MixedNodes NetworkConfig "
        "NetworkDesign Rule Space SpaceConfig SpaceDefinition Standing Style Zero build_network checked_scores "
        "definition_of definitions draw register register_ground_truth relu_conv_norm"
    ),
    "smallgroup.data": (
        "DATASETS Augmentation AugmentationConfig DataConfig DataError Dataset FileImages Finding Images OwnData "
        "Proportions Reader SearchData Source Splits Stream TensorImages data_root examine open_dataset "
        "open_search_data open_unlabeled ordered register split"
    ),
    "smallgroup.exporters": "EXPORTERS Exported Exporter MissingExtraError ParityError about export_model register",
    "smallgroup.study": (
        "Engine LocalEngine Plan RayEngine SlurmEngine Store Study StudyResult Table built_in carry_out carry_out_all "
        "open_study opened planned progress tabulated"
    ),
    "smallgroup.testing": (
        "DefinitionContract MethodContract PlacementError SmoothCell SmoothSpace SpaceContract TaskContract Traffic "
        "TwinDevice"
    ),
}
"""By package; every other module is internal, as docs/plugins.md says."""


@pytest.mark.parametrize("package", PUBLIC)
def test_names_that_programs_of_users_import(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) == set(PUBLIC[package].split())
    for name in module.__all__:
        assert getattr(module, name) is not None


NAMED = re.compile(r"`[^`\n]*?\b(smallgroup\.[a-z_]+)\.([A-Za-z_]+)\(")
IMPORT = re.compile(r"from (smallgroup[\w.]*) import (\(?[\w, ]+)|(?<!from )import (smallgroup[\w.]*)")


def internal_imports(text: str) -> list[str]:
    """What a snippet imports that is not public."""
    found = []
    for package, names, whole in IMPORT.findall(text):
        known = PUBLIC.get(package or whole)
        wanted = [name.split(" as ")[0].strip(" (") for name in names.split(",") if name.strip(" (")]
        found += [package or whole] if known is None else [name for name in wanted if name not in known.split()]
    return found + [name for package, name in NAMED.findall(text) if name not in PUBLIC.get(package, "").split()]


def test_pages_and_examples_import_public_names_alone() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    files = [*pages, *(ROOT / "examples").rglob("*.py")]
    assert len(files) > 20
    assert {file.name: names for file in files if (names := internal_imports(file.read_text()))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from smallgroup.spaces.darts import DartsSpace",
        "from smallgroup.spaces import Cell",
        "import smallgroup.jobs",
        "In Python: `smallgroup.pages.draw_report(run)`.",
    ],
)
def test_internal_names_are_noticed(line: str) -> None:
    assert internal_imports(line)
    assert not internal_imports("import smallgroup; from smallgroup.spaces import Space, draw")

"""The public names: who removes or renames one breaks programs of users, and says so in the changelog."""

from importlib import import_module

import pytest

PUBLIC = {
    "smallgroup": "Config __version__ evaluate load predict run search search_seeds train train_mutually",
    "smallgroup.group": (
        "Apply Classification DenseClassification Exchange GaussianRegression Labeller Learner LearnerReport "
        "LocalExchange ModuleApply MultiLabel NonFiniteError Optimizers PeerError Phase RankExchange Regression "
        "SmallGroup StepReport Task step_derivative"
    ),
    "smallgroup.methods": (
        "METHODS Architecture ArchitectureOptimizer Continue Darts DartsMinus Decision EpochEnd FairDarts Gdas "
        "Measured Method Noise OperationGradients PDarts PcDarts Progress Rebuild Relaxed Rollback Stop register"
    ),
    "smallgroup.spaces": (
        "GROUND_TRUTHS SPACES DartsSpace DerivedNetwork Genotype GroundTruth ImageSpec Kind MixedNodes "
        "NasBench201Space NetworkConfig NetworkDesign Rule Space SpaceConfig SpaceDefinition Standing checked_scores "
        "definition_of definitions register register_ground_truth"
    ),
    "smallgroup.data": (
        "DATASETS Augmentation AugmentationConfig DataConfig DataError Dataset FileImages Finding Images OwnData "
        "Proportions Reader SearchData Source Splits Stream TensorImages data_root examine open_dataset "
        "open_search_data open_unlabeled ordered register split"
    ),
    "smallgroup.exporters": "EXPORTERS Exported Exporter MissingExtraError ParityError about export_model register",
    "smallgroup.study": (
        "Plan Store Study StudyResult Table built_in carry_out carry_out_all open_study opened planned progress "
        "tabulated"
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

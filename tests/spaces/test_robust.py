"""robust-s1 to robust-s4: parts of the DARTS space, against closed forms."""

from smallgroup.testing import DefinitionContract


class TestS1(DefinitionContract):
    name = "robust-s1"


class TestS2(DefinitionContract):
    name = "robust-s2"


class TestS3(DefinitionContract):
    name = "robust-s3"


class TestS4(DefinitionContract):
    name = "robust-s4"

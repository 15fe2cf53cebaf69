"""What every test of the Hera adapter needs: Hera as it is when freshly imported, and whole built workflows."""

import pytest

pytest.importorskip("hera.workflows", reason="Hera is not installed: pip install 'pillion[hera]'")

from hera.shared import global_config


@pytest.fixture(autouse=True)
def fresh_hera():
    global_config.reset()
    yield
    global_config.reset()


@pytest.fixture
def build():
    """Return a workflow as the dict that goes to the cluster, having checked what holds for every workflow.

    It is the same when it is built again, and Hera's own models read it back as it was.
    """

    def build(workflow):
        built = workflow.to_dict()
        text = workflow.to_yaml()
        assert workflow.to_dict() == built
        assert type(workflow).from_yaml(text).to_yaml() == text
        return built

    return build


@pytest.fixture
def templates(build):
    """Return a workflow's templates by name."""

    def templates(workflow):
        spec = build(workflow)["spec"]
        return {template["name"]: template for template in spec.get("workflowSpec", spec).get("templates", ())}

    return templates


@pytest.fixture
def policy_of(templates):
    """Return, by template name, what a policy puts on a template: annotations without prefix, class, retry strategy."""

    def policy_of(workflow):
        found = {}
        for name, template in templates(workflow).items():
            metadata = template.get("metadata", {})
            terms = {
                key.removeprefix("pillion.dev/"): value
                for key, value in metadata.get("annotations", {}).items()
                if key.startswith("pillion.dev/")
            }
            assert metadata.get("labels", {}).get("pillion.dev/managed") == ("true" if terms else None)
            if terms:
                found[name] = (terms, template.get("priorityClassName"), template.get("retryStrategy"))
        return found

    return policy_of

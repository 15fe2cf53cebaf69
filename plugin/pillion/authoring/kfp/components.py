"""Tagged copies of components.

A component's `__call__` is looked up on its class, so a tagged copy has a class of its own, derived from the author's;
whatever asks what it is gets the same answers as from the author's component, which stays untouched.
"""

from __future__ import annotations

import copy
import functools
from typing import Any, NamedTuple

from google.protobuf import json_format
from kfp.dsl.structures import RetryPolicy
from kfp.dsl.utils import sanitize_executor_label

from pillion.authoring.kfp import labels, settling, steps
from pillion.authoring.tags import ATTRIBUTE, DEFAULTS_ATTRIBUTE, Directive, Tags, function_tags, retry_limit
from pillion.policy import HASH_ENV, PolicyError, Problem, Terms, policy_hash, write

_MARK = "__pillion_tagged__"


class ComponentTags(NamedTuple):
    """What was said above a component, and below it on its function."""

    component: Tags = Tags()
    function: Tags = Tags()

    @property
    def said(self) -> Tags:
        """Both; what was said above wins."""
        return self.component.over(self.function)


def tag_component(component: Any, directive: Directive) -> Any:
    """Return a copy of a component that hands `directive` to the tasks that are made from it.

    Raises:
        PolicyError: It runs no container, or has a directive of this kind.
    """
    steps.refuse_without_pod(component.component_spec, directive.source)
    try:
        steps.check(directive)
        tags = _tags(component)._replace(component=_tags(component).component.adding(directive))
    except PolicyError as error:
        raise error.at(_where(component)) from None
    tagged = copy.copy(component)
    _become_tagged(tagged, tags)
    return tagged


def tag_from_function(component: Any, function: Any) -> None:
    """Hand the tags of a function to the component that is just being made from it.

    Raises:
        PolicyError: They cannot be meant in KFP, or the function has defaults, which nothing would ever reach.
    """
    if hasattr(function, DEFAULTS_ATTRIBUTE):
        raise PolicyError(
            Problem(
                "defaults-target", "defaults stand below the decorator of a component",
                "defaults hold for a pipeline's function or a block", "use gpu_share and priority for one step",
                _where(component),
            )
        )  # fmt: skip
    tags = function_tags(function)
    if not tags:
        return
    for directive in (tags.gpu_share, tags.priority):
        if directive is not None:
            try:
                steps.check(directive)
            except PolicyError as error:
                raise error.at(_where(component)) from None
    _become_tagged(component, ComponentTags(function=tags))


def _tags(component: Any) -> ComponentTags:
    tags = vars(component).get(ATTRIBUTE)
    return tags if isinstance(tags, ComponentTags) else ComponentTags()


def _where(component: Any) -> str:
    return f'component "{component.name}"'


def _become_tagged(component: Any, tags: ComponentTags) -> None:
    setattr(component, ATTRIBUTE, tags)
    base: Any = type(component)
    if not hasattr(base, _MARK):
        component.__class__ = _tagged_class(base)


@functools.cache
def _tagged_class(base: Any) -> type:
    """Return the class of tagged copies of components of class `base`."""

    @functools.wraps(base.__call__)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        task = base.__call__(self, *args, **kwargs)
        steps.tag_from_component(task, _tags(self).said)
        steps.tag_from_defaults(task)
        return task

    def reduce(self: Any) -> tuple[Any, ...]:
        # Copies and pickles name the author's class: this one cannot be imported.
        return _restore, (base,), vars(self)

    # A component that is compiled alone becomes a pipeline of one step, to which KFP gives neither annotations nor
    # retries. These two properties are what its compiler reads.

    def pipeline_spec(self: Any) -> Any:
        return _with_hash(self, base.pipeline_spec.fget(self))

    def platform_spec(self: Any) -> Any:
        return _with_annotations(self, base.platform_spec.fget(self))

    namespace = {
        "__call__": call,
        "__reduce__": reduce,
        "__doc__": base.__doc__,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "pipeline_spec": property(pipeline_spec, doc=base.pipeline_spec.__doc__),
        "platform_spec": property(platform_spec, doc=base.platform_spec.__doc__),
        _MARK: True,
    }
    return type(base.__name__, (base,), namespace)


def _restore(base: Any) -> Any:
    return object.__new__(_tagged_class(base))


def _with_hash(component: Any, pipeline_spec: Any) -> Any:
    """Put a policy's hash and retries into the pipeline message of a component alone."""
    said, terms = _complete(component)
    label = sanitize_executor_label(component.component_spec.name)
    container = labels.executors_of(pipeline_spec)[label].struct_value["container"]
    environment = container["env"] if "env" in container else []  # noqa: SIM401 - a message has no get()
    others = [dict(variable) for variable in environment if variable["name"] != HASH_ENV]
    container["env"] = [*others, {"name": HASH_ENV, "value": policy_hash(terms)}]
    count = retry_limit(said.retries, terms)
    for task in pipeline_spec.root.dag.tasks.values():
        if count and pipeline_spec.components[task.component_ref.name].executor_label == label:
            retry = RetryPolicy(max_retry_count=count, backoff_max_duration=settling.BACKOFF_MAX_DURATION)
            task.retry_policy.CopyFrom(retry.to_proto())
    return pipeline_spec


def _with_annotations(component: Any, platform_spec: Any) -> Any:
    """Return the platform message of a component alone with a policy's annotations."""
    _, terms = _complete(component)
    label = sanitize_executor_label(component.component_spec.name)
    spec = json_format.MessageToDict(platform_spec)
    config: dict[str, Any] = spec
    for key in ("platforms", "kubernetes", "deploymentSpec", "executors", label):
        config = config.setdefault(key, {})
    config["podMetadata"] = settling.pod_metadata(write(terms), config.get("podMetadata", {}))
    return json_format.ParseDict(spec, type(platform_spec)())


def _complete(component: Any) -> tuple[Tags, Terms]:
    said, where = _tags(component).said, _where(component)
    problems = settling.environment_problems(component.component_spec)
    if problems:
        raise PolicyError(*problems).at(where)
    try:
        return said, said.terms()
    except PolicyError as error:
        raise error.at(where) from None

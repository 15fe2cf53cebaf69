"""`gpu_share`, `priority` and `defaults` before any SDK is involved: checked when written, one of each, nearest wins."""

import functools
import threading

import pytest

from pillion import PolicyError, defaults, gpu_share, priority
from pillion.authoring.decorators import current_defaults
from pillion.authoring.tags import Tags, function_tags
from pillion.policy import Memory, OnPreempt, Parameter, Terms, Tier

GIB = 1024**3


def plain():
    """Stand in for a step's function."""


@pytest.fixture
def step():
    def step():
        """Do the work."""

    return step


def message(call):
    with pytest.raises(PolicyError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("share", "milli"), [(0.5, 500), (1, 1000), (0.01, 10), ("500m", 500), ("0.25", 250), (0.1 + 0.2, 300), (0.7, 700)]
)
def test_a_share_is_a_number_or_text(share, milli):
    assert gpu_share(share).directive.terms == Terms(share_milli=milli)


def test_every_argument_reaches_its_term():
    assert gpu_share(0.5, limit="0.75", memory="8Gi", container="trainer").directive.terms == Terms(
        share_milli=500, limit_milli=750, memory=Memory(8 * GIB, "8Gi"), container="trainer"
    )
    urgent = priority("high", max_slowdown="2%", max_stall="5ms", retries=3).directive
    assert (urgent.terms, urgent.retries) == (
        Terms(tier=Tier.HIGH, max_slowdown_ppm=20_000, max_stall_ns=5_000_000),
        3,
    )
    assert priority("low", on_preempt="evict").directive.terms == Terms(tier=Tier.LOW, on_preempt=OnPreempt.EVICT)
    assert gpu_share("{{inputs.parameters.share}}").directive.terms == Terms(
        share_milli=Parameter("{{inputs.parameters.share}}")
    )


@pytest.mark.parametrize(
    ("call", "start"),
    [
        (lambda: gpu_share(1.5), 'share in gpu_share(1.5) is "1.5"; a share is at least 0.01 and at most 1'),
        (lambda: gpu_share(0), 'share in gpu_share(0) is "0"; a share is at least 0.01'),
        (lambda: gpu_share(-1), 'share in gpu_share(-1) is "-1"; a share is at least 0.01'),
        (lambda: gpu_share(1e9), 'share in gpu_share(1000000000.0) is "1000000000.0"; a share is at least 0.01'),
        (lambda: gpu_share(float("nan")), 'share in gpu_share(nan) is "nan"; a share is at least 0.01'),
        (lambda: gpu_share(1 / 3), "share in gpu_share(0.3333333333333333)"),
        (lambda: gpu_share(True), "share in gpu_share(True) is True; its value is text"),
        (lambda: gpu_share([0.5]), "share in gpu_share([0.5]) is [0.5]; its value is text"),
        (lambda: gpu_share(0.5, memory=8), "memory in gpu_share(0.5, memory=8) is 8; its value is text, in quotes"),
        (lambda: gpu_share(0.5, limit=0.25), "limit 0.25 is below share 0.5; a limit is at least the share"),
        (lambda: gpu_share(), "gpu_share() says nothing; it takes a share, a memory, or both"),
        (lambda: priority("urgent"), "tier in priority('urgent') is \"urgent\"; a priority is one of high, normal, low"),
        (lambda: priority(None), "priority() names no tier; a priority is one of high, normal, low"),
        (lambda: priority("low", max_slowdown="1%"), "max-slowdown is set on a low step"),
        (lambda: priority("high", max_slowdown=0.01), "max_slowdown in priority('high', max_slowdown=0.01) is 0.01"),
        (lambda: priority("low", retries=-1), "retries is -1; retries is a whole number from 0 to 1000"),
        (lambda: priority("low", retries=True), "retries is True; retries is a whole number"),
        (lambda: priority("low", retries=2.5), "retries is 2.5; retries is a whole number"),
        (lambda: defaults(), "defaults() says nothing; it takes a share, a memory, a priority"),
        (lambda: defaults(share=2), 'share in gpu_share(2) is "2"'),
        (lambda: defaults(max_stall="1ms"), "max-stall is set on a normal step"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_where_it_is_written(call, start):
    assert message(call).startswith(start)


def test_a_function_stays_itself(step):
    decorated = gpu_share(0.5)(priority("low")(step))
    assert decorated is step
    assert (decorated.__name__, decorated.__doc__) == ("step", "Do the work.")
    assert function_tags(step) == Tags(gpu_share(0.5).directive, priority("low").directive)


def test_the_same_decorator_twice_on_one_object_is_an_error(step):
    gpu_share(0.5)(step)
    assert message(lambda: gpu_share(0.25)(step)).startswith(
        "gpu_share(0.25) is applied where gpu_share(0.5) already is; one object carries at most one gpu_share"
    )


def test_the_outermost_decorator_wins_over_one_on_a_wrapped_function(step):
    gpu_share(0.5, memory="8Gi")(step)
    priority("low")(step)

    @functools.wraps(step)
    def wrapper():
        return step()

    gpu_share(0.25)(wrapper)
    assert function_tags(wrapper) == Tags(gpu_share(0.25).directive, priority("low").directive)
    assert function_tags(step) == Tags(gpu_share(0.5, memory="8Gi").directive, priority("low").directive)


@pytest.mark.parametrize("target", [3, None, "step", object(), [plain]])
def test_what_is_no_step_is_refused_by_type(target):
    with pytest.raises(TypeError, match="it takes a KFP component or task, a Hera template or script"):
        gpu_share(0.5)(target)


def test_the_innermost_default_wins_and_ends_with_its_block():
    with defaults(priority="low", memory="4Gi"):
        with defaults(priority="high", share=0.5):
            assert current_defaults() == Tags(gpu_share(0.5).directive, priority("high").directive)
        assert current_defaults() == Tags(gpu_share(memory="4Gi").directive, priority("low").directive)
    assert current_defaults() == Tags()


def test_defaults_decorate_a_pipeline_function_for_the_time_it_runs():
    @defaults(priority="low", on_preempt="evict")
    def pipeline(n: int = 3):
        """Nightly."""
        return current_defaults(), n

    assert pipeline(n=4) == (Tags(None, priority("low", on_preempt="evict").directive), 4)
    assert pipeline() == (Tags(None, priority("low", on_preempt="evict").directive), 3)
    assert (pipeline.__name__, pipeline.__doc__) == ("pipeline", "Nightly.")
    assert current_defaults() == Tags()


def test_defaults_end_when_their_block_fails():
    block = defaults(priority="low")
    with pytest.raises(ZeroDivisionError), block:
        _ = 1 / 0
    assert current_defaults() == Tags()


def test_defaults_of_one_thread_are_not_those_of_another():
    seen = []
    with defaults(priority="low"):
        thread = threading.Thread(target=lambda: seen.append(current_defaults()))
        thread.start()
        thread.join()
    assert seen == [Tags()]

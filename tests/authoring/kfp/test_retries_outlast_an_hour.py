"""A step that may be preempted is tried again, however late that happens; an author's own retry is kept."""

import warnings

import pytest
from kfp import dsl

from pillion import gpu_share, priority
from pillion.policy import PolicyWarning


@dsl.component(base_image="python:3.11")
def train(): ...


def retry_of(compiled, body):
    @dsl.pipeline(name="p")
    def p():
        body()

    return compiled(p).pipeline["root"]["dag"]["tasks"]["train"].get("retryPolicy")


def week(count):
    # 604800 s is a week; KFP's own 3600 s would be counted from the first attempt.
    return {
        "backoffDuration": "0s",
        "backoffFactor": 2.0,
        "backoffMaxDuration": "604800s",
        "maxRetryCount": count,
    }


@pytest.mark.parametrize(
    ("urgency", "expected"),
    [
        (priority("normal"), None),
        (priority("normal", on_preempt="wait"), None),
        (priority("normal", on_preempt="evict"), week(5)),
        (priority("normal", on_preempt="suspend"), week(5)),
        (priority("normal", on_preempt="evict", retries=2), week(2)),
        (priority("normal", on_preempt="evict", retries=0), None),
        (priority("high", retries=3), week(3)),
    ],
    ids=lambda value: repr(value) if callable(value) else "",
)
def test_steps_that_lose_their_pod_are_tried_again(urgency, expected, compiled):
    assert retry_of(compiled, lambda: urgency(gpu_share(0.5)(train)())) == expected


@pytest.mark.parametrize("first", ["set_retry", "priority"])
def test_an_authors_own_retry_is_kept_with_a_warning(first, compiled):
    def body():
        task = gpu_share(0.5)(train)()
        if first == "set_retry":
            task.set_retry(3, backoff_duration="60s")
        priority("normal", on_preempt="evict")(task)
        if first == "priority":
            task.set_retry(3, backoff_duration="60s")

    with pytest.warns(PolicyWarning) as warned:
        found = retry_of(compiled, body)
    assert found == {
        "backoffDuration": "60s",
        "backoffFactor": 2.0,
        "backoffMaxDuration": "3600s",
        "maxRetryCount": 3,
    }
    (warning,) = warned
    assert warning.filename == __file__
    text = str(warning.message)
    assert text.startswith(
        f'task "train" of pipeline "p" ({__file__}:{warning.lineno}): the author\'s own set_retry(3)'
    )
    assert "stops 3600 s after the first attempt" in text
    assert "5 retries with backoff_max_duration 604800s" in text


@pytest.mark.parametrize("lasts", ["604800s", "7 days", "2w"])
def test_an_own_retry_that_lasts_long_enough_needs_no_warning(lasts, compiled):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PolicyWarning)
        found = retry_of(
            compiled,
            lambda: priority("normal", on_preempt="evict")(gpu_share(0.5)(train)()).set_retry(
                9, backoff_max_duration=lasts
            ),
        )
    assert found["maxRetryCount"] == 9


def test_two_counts_that_the_author_gave_are_worth_a_warning(compiled):
    with pytest.warns(PolicyWarning, match=r"set_retry\(9\) stays"):
        found = retry_of(
            compiled,
            lambda: priority("high", retries=2)(gpu_share(0.5)(train)()).set_retry(9, backoff_max_duration="604800s"),
        )
    assert found["maxRetryCount"] == 9


def test_a_step_that_waits_may_be_retried_as_its_author_likes(compiled):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PolicyWarning)
        found = retry_of(compiled, lambda: gpu_share(0.5)(train)().set_retry(1))
    assert found == {
        "backoffDuration": "0s",
        "backoffFactor": 2.0,
        "backoffMaxDuration": "3600s",
        "maxRetryCount": 1,
    }

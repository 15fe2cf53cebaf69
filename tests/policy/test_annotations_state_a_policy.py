"""From annotations to a policy and back: defaults, contradictions, omissions, unknown words, the hash."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillion.policy import (
    Memory,
    OnPreempt,
    Parameter,
    Policy,
    PolicyError,
    Terms,
    Tier,
    policy_hash,
    read,
    resolve,
    write,
)

GIB = 1024**3


def codes(annotations, **options):
    with pytest.raises(PolicyError) as caught:
        read(annotations, **options)
    return [problem.code for problem in caught.value.problems]


def test_a_normal_step_gets_the_contracts_defaults():
    assert resolve(read({"pillion.dev/share": "500m"})) == Policy(
        share_milli=500, limit_milli=1000, memory=None, tier=Tier.NORMAL, max_slowdown_ppm=None, max_stall_ns=None,
        on_preempt=OnPreempt.WAIT, container=None,
    )  # fmt: skip


def test_a_high_step_is_bounded_by_one_percent_and_ten_milliseconds_unless_it_says_otherwise():
    assert resolve(read({"pillion.dev/share": "0.5", "pillion.dev/priority": "high"})) == Policy(
        share_milli=500, limit_milli=1000, memory=None, tier=Tier.HIGH, max_slowdown_ppm=10_000, max_stall_ns=10_000_000,
        on_preempt=OnPreempt.WAIT, container=None,
    )  # fmt: skip


def test_a_low_step_needs_memory_and_no_share():
    annotations = {"pillion.dev/priority": "low", "pillion.dev/memory": "4Gi", "pillion.dev/on-preempt": "evict"}
    assert resolve(read(annotations)) == Policy(
        share_milli=None, limit_milli=1000, memory=Memory(4 * GIB, "4Gi"), tier=Tier.LOW, max_slowdown_ppm=None,
        max_stall_ns=None, on_preempt=OnPreempt.EVICT, container=None,
    )  # fmt: skip
    assert codes({"pillion.dev/priority": "low"}) == ["missing-memory"]


@pytest.mark.parametrize("tier", ["high", "normal"])
def test_a_guaranteed_step_must_say_its_share(tier):
    assert codes({"pillion.dev/priority": tier, "pillion.dev/memory": "4Gi"}) == ["missing-share"]


def test_terms_that_contradict_each_other_are_all_reported():
    assert codes({
        "pillion.dev/share": "0.5", "pillion.dev/limit": "0.25", "pillion.dev/max-slowdown": "1%",
        "pillion.dev/max-stall": "10ms",
    }) == ["limit-below-share", "only-on-high", "only-on-high"]  # fmt: skip


def test_every_bad_value_is_reported_at_once():
    assert codes({"pillion.dev/share": "2", "pillion.dev/memory": "8", "pillion.dev/priority": "urgent"}) == [
        "share-value", "memory-value", "priority-value",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("pillion.dev/shares", "pillion.dev/share"),
        ("pillion.dev/priorty", "pillion.dev/priority"),
        ("pillion.dev/maxslowdown", "pillion.dev/max-slowdown"),
        ("pillion.dev/onpreempt", "pillion.dev/on-preempt"),
        ("Pillion.dev/share", "pillion.dev/share"),
        (" pillion.dev/memory", "pillion.dev/memory"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(key, suggestion):
    with pytest.raises(PolicyError) as caught:
        read({"pillion.dev/share": "0.5", key: "1"})
    (problem,) = caught.value.problems
    assert problem.code == "unknown-key"
    assert problem.fix == f"did you mean {suggestion}?"


def test_the_label_among_the_annotations_is_told_where_it_belongs():
    assert codes({"pillion.dev/share": "0.5", "pillion.dev/managed": "true"}) == ["managed-is-a-label"]


def test_annotations_of_others_are_nobodys_business():
    assert read({"pillion.dev/share": "0.5", "sidecar.istio.io/inject": False, 3: "x"}) == Terms(share_milli=500)


def test_a_parameter_is_legal_in_a_spec_and_an_error_once_the_pod_exists():
    annotations = {"pillion.dev/share": "{{inputs.parameters.share}}", "pillion.dev/limit": "0.25"}
    terms = read(annotations, parameters=True)
    assert terms == Terms(share_milli=Parameter("{{inputs.parameters.share}}"), limit_milli=250)
    with pytest.raises(PolicyError) as caught:
        resolve(terms)
    assert [problem.code for problem in caught.value.problems] == ["unresolved-parameter"]
    assert codes(annotations) == ["parameter-not-allowed"]


def test_equal_policies_have_equal_bytes_and_equal_hashes():
    short = read({"pillion.dev/share": "500m", "pillion.dev/priority": "high"})
    long = read({
        "pillion.dev/on-preempt": "wait", "pillion.dev/priority": "high", "pillion.dev/max-stall": "10000us",
        "pillion.dev/max-slowdown": "1.0%", "pillion.dev/limit": "1", "pillion.dev/share": "0.50",
    })  # fmt: skip
    assert list(write(short).items()) == list(write(long).items()) == [
        ("pillion.dev/priority", "high"), ("pillion.dev/share", "0.5"),
    ]  # fmt: skip
    digest = hashlib.sha256(b"pillion.dev/priority=high\npillion.dev/share=0.5").hexdigest()[:16]
    assert policy_hash(short) == policy_hash(long) == policy_hash(resolve(short)) == digest


guaranteed = st.fixed_dictionaries(
    {
        "share_milli": st.integers(10, 1000),
        "limit_milli": st.none() | st.just(1000),
        "memory": st.none() | st.integers(1, 10**6).map(lambda n: Memory(n * 2**20, f"{n}Mi")),
        "tier": st.none() | st.just(Tier.NORMAL),
        "on_preempt": st.none() | st.sampled_from(OnPreempt),
        "container": st.none() | st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True),
    }
)
urgent = st.fixed_dictionaries(
    {
        "share_milli": st.integers(10, 1000),
        "tier": st.just(Tier.HIGH),
        "max_slowdown_ppm": st.none() | st.integers(1_000, 500_000),
        "max_stall_ns": st.none() | st.integers(100, 10_000_000).map(lambda us: us * 1000),
    }
)
terms = (guaranteed | urgent).map(lambda said: Terms(**said))


@given(terms)
def test_a_written_policy_reads_back_as_the_same_policy(terms):
    annotations = write(terms)
    assert list(annotations) == sorted(annotations)
    assert resolve(read(annotations)) == resolve(terms)
    assert write(read(annotations)) == annotations


@given(terms, terms)
def test_different_policies_have_different_hashes(one, other):
    assert (policy_hash(one) == policy_hash(other)) == (write(one) == write(other))


@given(st.dictionaries(st.text(max_size=30) | st.just("pillion.dev/share"), st.text(max_size=10) | st.integers()))
def test_arbitrary_annotations_are_read_or_refused_and_nothing_else(annotations):
    try:
        resolve(read(annotations))
    except PolicyError as error:
        assert error.problems

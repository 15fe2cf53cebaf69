"""Each term's values, worked out by hand: what is accepted, in which unit it is kept, and its one canonical spelling."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillion.policy import BY_KEY, TERMS, Memory, OnPreempt, Parameter, PolicyError, Tier, is_parameter, read_term

GIB = 1024**3


def read(name: str, text: object) -> object:
    key = f"pillion.dev/{name}"
    return read_term(BY_KEY[key], text, subject=key, parameters=False)


def canonical(name: str, text: str) -> str:
    return BY_KEY[f"pillion.dev/{name}"].write(read(name, text))


@pytest.mark.parametrize(
    ("name", "text", "value", "spelling"),
    [
        ("share", "0.5", 500, "0.5"),
        ("share", "500m", 500, "0.5"),
        ("share", "0.01", 10, "0.01"),
        ("share", "10m", 10, "0.01"),
        ("share", "1", 1000, "1"),
        ("share", "1.000", 1000, "1"),
        ("share", "0.125", 125, "0.125"),
        ("share", "00.50", 500, "0.5"),
        ("limit", "1000m", 1000, "1"),
        ("memory", "8Gi", Memory(8 * GIB, "8Gi"), "8Gi"),
        ("memory", "8192Mi", Memory(8 * GIB, "8192Mi"), "8192Mi"),
        ("memory", "1.5Gi", Memory(3 * GIB // 2, "1.5Gi"), "1.5Gi"),
        ("memory", "8.0Gi", Memory(8 * GIB, "8Gi"), "8Gi"),
        ("memory", "500M", Memory(500_000_000, "500M"), "500M"),
        ("memory", "8589934592", Memory(8 * GIB, "8589934592"), "8589934592"),
        ("memory", "1Mi", Memory(1024**2, "1Mi"), "1Mi"),
        ("priority", "high", Tier.HIGH, "high"),
        ("priority", "low", Tier.LOW, "low"),
        ("max-slowdown", "1%", 10_000, "1%"),
        ("max-slowdown", "0.1%", 1_000, "0.1%"),
        ("max-slowdown", "50%", 500_000, "50%"),
        ("max-slowdown", "2.50%", 25_000, "2.5%"),
        ("max-stall", "10ms", 10_000_000, "10ms"),
        ("max-stall", "0.1ms", 100_000, "0.1ms"),
        ("max-stall", "100us", 100_000, "0.1ms"),
        ("max-stall", "1500ms", 1_500_000_000, "1.5s"),
        ("max-stall", "10s", 10_000_000_000, "10s"),
        ("on-preempt", "evict", OnPreempt.EVICT, "evict"),
        ("container", "main", "main", "main"),
        ("container", "a" * 63, "a" * 63, "a" * 63),
    ],
)
def test_an_accepted_value_keeps_its_meaning_and_gets_one_spelling(name, text, value, spelling):
    assert read(name, text) == value
    assert canonical(name, text) == spelling


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (
            "share",
            ["", "0", "0.009", "9m", "1.001", "1001m", "2", "-1", "-0.5", "+0.5", "1e9", "5e-1", "NaN", "inf", "0,5", "½",
             "50%", ".5", "0.", " 0.5", "0.5 ", "0.5\n", "0x1", "0_5", "٠.٥", "500 m", "0.5m", "0.3333", "1" * 400],
        ),
        ("limit", ["0", "1.5", "half"]),
        (
            "memory",
            ["", "0", "8", "1023Ki", "8GB", "8gi", "8 Gi", "-8Gi", "8e9", "8Ei", "800m", "NaN", "½Gi", "8,5Gi", "2Pi",
             "9" * 30 + "Gi", "0.0000001Gi", "1.00000000000001Gi"],
        ),
        ("priority", ["", "High", "HIGH", "urgent", "low ", "1", "nörmal"]),
        ("max-slowdown", ["", "1", "0.01", "0.09%", "50.1%", "0%", "-1%", "1 %", "1e0%", "0.10001%", "%", "½%"]),
        ("max-stall", ["", "10", "0.09ms", "10.1s", "99us", "1m", "1h", "10 ms", "-1ms", "0.1005ms", "1e2ms", "µs"]),
        ("on-preempt", ["", "Wait", "kill", "checkpoint"]),
        ("container", ["", "Main", "a_b", "-a", "a-", "a" * 64, "ä", "a b", "a.b"]),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_value_and_what_is_allowed(name, texts):
    for text in texts:
        with pytest.raises(PolicyError) as caught:
            read(name, text)
        (problem,) = caught.value.problems
        assert problem.code == f"{name}-value", text
        assert problem.what.startswith(f'pillion.dev/{name} is "')
        assert problem.allowed
        assert len(str(problem)) < 400
        assert str(problem).isprintable()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "share", "1.5",
            'pillion.dev/share is "1.5"; a share is at least 0.01 and at most 1, such as 0.5 or 500m '
            "(one step shares one GPU; a step that needs more asks for whole GPUs instead)",
        ),
        ("share", "0,5", 'pillion.dev/share is "0,5"; a share is at least 0.01 and at most 1, such as 0.5 or 500m (write "0.5")'),
        ("share", "50%", 'pillion.dev/share is "50%"; a share is at least 0.01 and at most 1, such as 0.5 or 500m (write "0.5")'),
        ("share", "0.3333", 'pillion.dev/share is "0.3333"; a share has at most three decimals (write "0.333")'),
        ("memory", "8", 'pillion.dev/memory is "8"; a memory is a Kubernetes quantity from 1Mi to 1Pi, such as 8Gi or 500M (add the unit: "8Gi" or "8Mi")'),
        ("memory", "8gb", 'pillion.dev/memory is "8gb"; a memory is a Kubernetes quantity from 1Mi to 1Pi, such as 8Gi or 500M (write "8G")'),
        ("priority", "High", 'pillion.dev/priority is "High"; a priority is one of high, normal, low (write "high")'),
        ("max-stall", "10", 'pillion.dev/max-stall is "10"; a max-stall is a time from 0.1ms to 10s, such as 10ms (add the unit: "10ms" or "10s")'),
        ("max-slowdown", "0.01", 'pillion.dev/max-slowdown is "0.01"; a max-slowdown is a percentage from 0.1% to 50%, such as 1% ("0.01%" or "1%", whichever is meant)'),
    ],
)  # fmt: skip
def test_an_error_says_what_to_write_instead(name, text, message):
    with pytest.raises(PolicyError) as caught:
        read(name, text)
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [0.5, 1, True, None, ["0.5"], {"a": 1}, math.nan])
def test_a_value_that_yaml_did_not_read_as_text_is_refused(value):
    with pytest.raises(PolicyError) as caught:
        read("share", value)
    assert [problem.code for problem in caught.value.problems] == ["not-a-string"]


@given(st.integers(10, 1000))
def test_every_thousandth_of_a_gpu_survives_both_spellings(milli):
    assert read("share", f"{milli}m") == read("share", str(Decimal(milli) / 1000)) == milli
    assert read("share", canonical("share", f"{milli}m")) == milli


@given(st.sampled_from(TERMS), st.text(max_size=40))
def test_any_text_is_either_refused_or_survives_its_canonical_spelling(term, text):
    try:
        value = read_term(term, text, subject=term.key, parameters=False)
    except PolicyError:
        return
    written = term.write(value)
    assert read_term(term, written, subject=term.key, parameters=False) == value
    assert term.write(read_term(term, written, subject=term.key, parameters=False)) == written


@pytest.mark.parametrize(
    "text", ["{{inputs.parameters.share}}", "{{=sprig.default('0.5')}}", "0.{{workflow.parameters.tenths}}"]
)
def test_an_argo_parameter_is_kept_as_it_is_where_argo_resolves_it(text):
    assert is_parameter(text)
    assert read_term(BY_KEY["pillion.dev/share"], text, subject="x", parameters=True) == Parameter(text)
    with pytest.raises(PolicyError) as caught:
        read_term(BY_KEY["pillion.dev/share"], text, subject="x", parameters=False)
    assert [problem.code for problem in caught.value.problems] == ["parameter-not-allowed"]


@pytest.mark.parametrize("parameters", [True, False])
def test_a_kfp_channel_is_never_a_value(parameters):
    with pytest.raises(PolicyError) as caught:
        read_term(
            BY_KEY["pillion.dev/share"], "{{channel:task=;name=share;type=String;}}", subject="x", parameters=parameters
        )
    assert [problem.code for problem in caught.value.problems] == ["kfp-parameter"]

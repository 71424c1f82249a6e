"""A scenario module in which every outcome occurs; it is copied into the folder of a session."""

CODE = '''
MARKUP = "<script>alert(1)</script> & <b>because</b>"

@pytest.fixture
def broken():
    raise OSError("no such device")

@pytest.fixture
def leaves_a_mess():
    yield
    raise OSError("cannot clean up")

@pytest.mark.parametrize(
    "outcome", ["PASSED", "FAILED", "ERROR", "SKIPPED", "BLOCKED", "RECORDED", "INCONCLUSIVE", "TIMEOUT"]
)
def test_judged(outcome, judge):
    """Ends as it is told."""
    judge(lambda: judgement(outcome, low=0.0, high=1.0, unit="share", reason=f"{MARKUP} {outcome}"), "")

def test_not_a_number(judge):
    """Has a number that is none."""
    judge(lambda: judgement("FAILED", observed=float("nan"), low=0.0, high=float("inf")), "")

def test_plain_pass():
    pass

def test_plain_assertion():
    assert 1 == 2, MARKUP

def test_plain_error():
    raise ValueError("our own bug")

def test_plain_skip():
    pytest.skip("not today")

def test_broken_before(broken):
    pass

def test_broken_after(leaves_a_mess):
    pass

def test_fails_after_its_judgement(judge):
    judge(lambda: judgement("PASSED"), "")
    assert 1 == 2

def test_keeps_its_judgement(judge):
    try:
        judge(lambda: judgement("BLOCKED", reason="by symptom"), "")
    except pytest.skip.Exception:
        pass

@pytest.mark.gpu
def test_needs_a_gpu():
    """Needs a GPU."""

@pytest.mark.timeout(0.2)
def test_hangs():
    time.sleep(60)
'''

EXPECTED = {
    "test_judged[PASSED]": "PASSED",
    "test_judged[FAILED]": "FAILED",
    "test_judged[ERROR]": "ERROR",
    "test_judged[SKIPPED]": "SKIPPED",
    "test_judged[BLOCKED]": "BLOCKED",
    "test_judged[RECORDED]": "RECORDED",
    "test_judged[INCONCLUSIVE]": "INCONCLUSIVE",
    "test_judged[TIMEOUT]": "TIMEOUT",
    "test_not_a_number": "FAILED",
    "test_plain_pass": "PASSED",
    "test_plain_assertion": "FAILED",
    "test_plain_error": "ERROR",
    "test_plain_skip": "SKIPPED",
    "test_broken_before": "ERROR",
    "test_broken_after": "ERROR",
    "test_fails_after_its_judgement": "FAILED",
    "test_keeps_its_judgement": "BLOCKED",
    "test_needs_a_gpu": "SKIPPED",
    "test_hangs": "TIMEOUT",
}

"""Whatever is asked, by whoever has the token or not, is answered: requests made of the description itself find no 500."""

import pytest
from hypothesis import HealthCheck, settings

from ryle.serve.app import application
from ryle.serve.control import add_to
from ryle.serve.telescope import Telescope
from sights import look
from watched import Watched

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
TOKEN = "a token of the tests"


app = application(Watched(look()), ["testserver"])
add_to(app, Telescope("nothing runs under this name"), TOKEN)
schema = schemathesis.openapi.from_asgi("/openapi.json", app)


@schema.parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_of_who_has_the_token_breaks_it(case):
    assert case.call(headers={"authorization": f"Bearer {TOKEN}"}).status_code < 500


@schema.parametrize()
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_without_the_token_nothing_is_steered(case):
    case.headers.pop("Authorization", None)
    answer = case.call(headers={"authorization": "Bearer another"})
    assert answer.status_code == 401 if case.path.startswith("/api/control") else answer.status_code < 500

"""What a broker refuses itself of a request for the controller, and what it passes on."""

import asyncio

from strandline_broker.core.controller.topics.configs import DELETE, GROUP, SET, TOPIC
from strandline_broker.core.groups.settings import GroupSettings
from strandline_broker.rpc.cluster.alter_configs import Request, Response, alter_configs

SESSION = "consumer.session.timeout.ms"


def request(*resources: tuple[int, str, str, int]) -> Request:
    """(type, name, value, operation) each, of the session's key."""
    made = Request(timeout_ms=7, validate_only=True)
    for kind, name, value, operation in resources:
        resource = made.resources.add(type=kind, name=name)
        resource.configs.add(name=SESSION, value=value, operation=operation)
    return made


def answered(asked: Request, *, error: int = 0) -> tuple[Response, list[Request]]:
    passed: list[Request] = []

    async def forward(rest: Request) -> Response:
        passed.append(rest)
        response = Response(error_code=error)
        for resource in rest.resources if error == 0 else ():
            response.results.add(type=resource.type, name=resource.name)
        return response

    return asyncio.run(alter_configs(asked, GroupSettings(), forward)), passed


def test_what_is_within_bounds_is_the_controllers_to_decide() -> None:
    asked = request((GROUP, "g", "45000", SET), (GROUP, "h", "", DELETE), (TOPIC, "t", "1", SET))
    response, (passed,) = answered(asked)
    assert passed == asked
    assert [result.name for result in response.results] == ["g", "h", "t"]


def test_what_is_out_of_bounds_is_refused_in_its_place_and_the_rest_passed_on() -> None:
    asked = request(
        (GROUP, "g", "45000", SET), (GROUP, "bad", "60001", SET), (TOPIC, "t", "1", SET)
    )
    response, (passed,) = answered(asked)
    assert [resource.name for resource in passed.resources] == ["g", "t"]
    assert (passed.timeout_ms, passed.validate_only) == (7, True)
    assert [(result.name, result.error_code) for result in response.results] == [
        ("g", 0),
        ("bad", 40),
        ("t", 0),
    ]
    assert "from 45000 to 60000" in response.results[1].error_message


def test_nobody_is_asked_where_nothing_is_left_and_a_failure_of_all_stays_one() -> None:
    response, passed = answered(request((GROUP, "bad", "1", SET)))
    assert passed == []
    assert response.results[0].error_code == 40
    failed, _ = answered(request((GROUP, "bad", "1", SET), (TOPIC, "t", "1", SET)), error=41)
    assert failed.error_code == 41
    assert not failed.results

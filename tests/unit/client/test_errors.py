"""The client's errors that a broker answers with: one class for each code of the contract."""

import pytest

from strandline import errors
from strandline.errors import BrokerError, StrandlineError, from_code
from strandline_proto.errors import ERRORS


@pytest.mark.parametrize(
    "code", [code for code, kind in ERRORS.items() if not kind.between_servers]
)
def test_a_code_that_clients_are_answered_with_has_a_class_of_its_name(code: int) -> None:
    error, kind = from_code(code, "why"), ERRORS[code]
    assert type(error) is getattr(errors, kind.__name__)
    assert isinstance(error, BrokerError)
    assert isinstance(error, StrandlineError)
    assert isinstance(error, kind)
    assert (error.code, error.retriable, str(error)) == (code, kind.retriable, "why")
    assert not error.may_have_been_written


@pytest.mark.parametrize("code", [code for code, kind in ERRORS.items() if kind.between_servers])
def test_an_answer_that_is_not_for_clients_keeps_its_name_and_code(code: int) -> None:
    error, kind = from_code(code), ERRORS[code]
    assert not hasattr(errors, kind.__name__)
    assert type(error).__name__ == kind.__name__
    assert (error.code, error.retriable) == (code, kind.retriable)


def test_a_code_of_a_later_version_is_a_broker_error_too() -> None:
    error = from_code(9999)
    assert isinstance(error, BrokerError)
    assert (error.code, error.retriable) == (9999, False)

"""The served OpenAPI document against the served farm: Schemathesis makes requests of it, good and bad ones."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.generation import GenerationMode

from tests.kit.farm import ServedFarm, farm_config, open_served, submit, wait_over, write_scenario
from tests.kit.pins import NumberAnswering

EXAMPLES = 12  # of each endpoint and each of the two ways
UNTRIED = (
    checks.unsupported_method,  # a path of no endpoint answers 404 whatever the method
    checks.ignored_auth,  # test_api walks all routes with every role
    checks.negative_data_rejection,  # queries that an endpoint does not know are left out of account, as HTTP has it
    checks.positive_data_acceptance,  # what the state does not allow is refused with 409
)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["games.admin", "games.operator", "games.viewer", "nobody"])
async def test_every_answer_is_one_that_the_document_tells_of(tmp_path: Path, who: str) -> None:
    write_scenario(tmp_path, "one")
    async with open_served(farm_config(tmp_path), answering=NumberAnswering()) as served:
        run = (await submit(served.farm, "one")).run
        await wait_over(served.farm, run)
        known = {"run": run, "phone": "10.0.0.1:5555", "name": "summary.json"}
        tried = await trio.to_thread.run_sync(_try_all, served, who, known)
        assert tried > 30 * EXAMPLES / 2
        assert (await served.call("games.admin", "GET", "/api/v1/farm")).json["phones"] == 4


def _try_all(served: ServedFarm, who: str, known: dict[str, str]) -> int:
    """Blocks; returns how many requests were made."""
    schema = schemathesis.openapi.from_url(f"{served.url}/api/v1/openapi.json")
    headers = {"authorization": f"Bearer {served.tokens[who].reveal()}"}
    excluded: Any = [getattr(one, "check_function", one) for one in UNTRIED]
    count, failures = 0, list[str]()
    for found in schema.get_all_operations():
        operation = found.ok()  # type: ignore[union-attr]  # a wrong document fails here
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
            )
            @given(case=operation.as_strategy(generation_mode=mode), real=st.booleans())
            def one(case: Any, real: bool) -> None:
                nonlocal count
                if real:
                    case.path_parameters = {
                        name: known.get(name, value) for name, value in (case.path_parameters or {}).items()
                    }
                count += 1
                case.call_and_validate(headers=headers, excluded_checks=excluded, timeout=30)

            try:
                one()
            except Unsatisfiable:
                pass  # nothing of it can be wrong
            except BaseExceptionGroup as group:
                failures += [f"{operation.label}: {error}" for error in group.exceptions]
    assert not failures, "\n".join(failures)
    return count

"""What of the farm a request names, as far as its caller may know of it."""

from starlette.requests import Request

from actors.farm.access import Caller, RequestError
from actors.farm.daemon import Farm
from actors.farm.records import AttemptRecord, RunRecord
from actors.farm.store import Missing

MAX_TEXT = 200  # of a name in a query


async def asked_run(farm: Farm, name: str, caller: Caller) -> RunRecord:
    """A run by its name.

    Raises:
        Missing: there is none, or it is another tenant's.
    """
    record = await farm.store.do(lambda store: store.run(name))
    if not caller.sees(record.work.tenant):
        raise Missing(f"there is no run {name!r}")
    return record


async def asked_attempt(farm: Farm, request: Request, caller: Caller) -> AttemptRecord:
    """The attempt that `{run}` and `attempt` name; without a number, the last.

    Raises:
        Missing: there is none, or it is another tenant's.
        RequestError: the number is none.
    """
    record = await asked_run(farm, request.path_params["run"], caller)
    return await attempt_of(farm, record.run, asked_number(request, "attempt"))


async def attempt_of(farm: Farm, run: str, number: int | None = None) -> AttemptRecord:
    """An attempt at a run; without a number, the last.

    Raises:
        Missing: there is none.
    """
    attempts = await farm.store.do(lambda store: store.attempts(run))
    found = [one for one in attempts if number in (None, one.number)]
    if not found:
        raise Missing(f"run {run} has no such attempt" if attempts else f"run {run} has not begun")
    return found[-1]


def asked_tenant(request: Request, caller: Caller) -> str:
    """Whose things are meant: the caller's own tenant's, or, of an admin, those of `tenant`.

    Raises:
        Missing: another tenant's, for whoever is no admin.
    """
    tenant = request.query_params.get("tenant", caller.tenant)
    if not caller.sees(tenant):
        raise Missing(f"there is no tenant {tenant[:MAX_TEXT]!r}")
    return tenant


def asked_number(request: Request, name: str) -> int | None:
    """A number of the query, 0 or more.

    Raises:
        RequestError: it is something else.
    """
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise RequestError(f"{name!r} must be a number, 0 or more: {text[:20]!r}")
    return int(text)


def asked_choice(request: Request, name: str, choices: tuple[str, ...]) -> str | None:
    """A word of the query, one of some.

    Raises:
        RequestError: it is another.
    """
    text = request.query_params.get(name)
    if text is not None and text not in choices:
        raise RequestError(f"{name!r} is one of {', '.join(choices)}: {text[:20]!r}")
    return text

"""Endpoints of a farm's engines: how they are, and what an admin does with them."""

from collections.abc import Mapping
from typing import Any

import attrs
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from actors.farm.access import Caller, Endpoint, Need
from actors.farm.daemon import Farm
from actors.farm.engine_views import engine_views, rollout_view
from actors.farm.engines import NoEngine
from actors.farm.store import Missing, Refused
from runtime.ids import EngineId


@attrs.define(eq=False)
class EnginesApi:
    """What each does."""

    farm: Farm

    def view(self, tenant: str | None) -> Mapping[str, Any]:
        """All of it as one tenant sees it; None: an admin."""
        engines = self.farm.engines
        return {
            "engines": engine_views(engines, tenant),
            "rollout": rollout_view(engines.rollout),
            "held": list(engines.held),
        }

    async def view_for(self, caller: Caller) -> Mapping[str, Any]:
        """As a caller sees it."""
        return self.view(caller.only_tenant)

    async def list_engines(self, _request: Request, caller: Caller) -> Response:
        """How each is."""
        return JSONResponse(await self.view_for(caller))

    async def drain(self, request: Request, caller: Caller) -> Response:
        """Noted first, as every deed of an operator."""
        engine = request.path_params["engine"]
        await self.farm.note(caller.action("drain engine", engine))
        try:
            await self.farm.engines.drain(EngineId(engine))
        except NoEngine as error:
            raise Missing(str(error)) from error
        self.farm.look_again()
        return JSONResponse(self.view(None))

    async def undrain(self, request: Request, caller: Caller) -> Response:
        """It starts again."""
        engine = request.path_params["engine"]
        await self.farm.note(caller.action("undrain engine", engine))
        try:
            await self.farm.engines.undrain(EngineId(engine))
        except NoEngine as error:
            raise Missing(str(error)) from error
        return JSONResponse(self.view(None))

    async def stop_rollout(self, _request: Request, caller: Caller) -> Response:
        """What was changed by then stays."""
        await self.farm.note(caller.action("stop rollout", ""))
        try:
            self.farm.engines.stop_rollout()
        except NoEngine as error:
            raise Refused(str(error)) from error
        return JSONResponse(self.view(None))


def engine_endpoints(api: EnginesApi) -> tuple[Endpoint, ...]:
    """All of them."""
    engine = "/api/v1/engines/{engine}"
    return (
        Endpoint(
            "GET", "/api/v1/engines", Need.VIEWER, api.list_engines, "Engines that all runs share.", schema="Engines"
        ),
        Endpoint("POST", f"{engine}/drain", Need.ADMIN, api.drain, "Take it out, and end it."),
        Endpoint("DELETE", f"{engine}/drain", Need.ADMIN, api.undrain, "Start it again."),
        Endpoint("DELETE", "/api/v1/rollout", Need.ADMIN, api.stop_rollout, "Change nothing more of the engines."),
    )

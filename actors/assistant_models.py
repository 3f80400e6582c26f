"""Engine pools as the assistant's models: errors of the engine door become the assistant's here, and nowhere else."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from actors.assistant_config import AssistantConfig
from inference.errors import EngineError, EngineTooSlow, Overloaded, TenantLimited
from inference.messages import CompleteStreaming, Completion, OnDelta, Prompt
from inference.pool import open_pool
from runtime.telemetry import emit
from sqlassist.ports import ModelFailed


def model_of(pool: CompleteStreaming) -> CompleteStreaming:
    """An engine pool as the pipeline's model: its errors become the assistant's."""

    async def complete(prompt: Prompt, *, deadline: float, on_delta: OnDelta | None = None) -> Completion:
        try:
            return await pool(prompt, deadline=deadline, on_delta=on_delta)
        except TenantLimited as error:
            raise ModelFailed("tenant_limited", str(error), error.retry_after_seconds) from error
        except Overloaded as error:
            raise ModelFailed("engine_overloaded", "the model has too many questions at present", 5.0) from error
        except EngineTooSlow as error:
            raise ModelFailed("engine_too_slow", "the model did not answer in time", 5.0) from error
        except EngineError as error:
            emit("actors.assistant.engine_failed", level="warning", error=str(error))
            raise ModelFailed("engine_failed", "the model cannot be reached at present", 5.0) from error

    return complete


@asynccontextmanager
async def open_models(config: AssistantConfig) -> AsyncIterator[tuple[CompleteStreaming, ...]]:
    """The models of a configuration, in its order, for the time of the block."""
    async with AsyncExitStack() as stack:
        models = []
        for engine in config.engines:  # a pool each, so that a question can be asked of a small one first
            pool = await stack.enter_async_context(open_pool([engine], tenants=config.tenant_limits()))
            models.append(model_of(pool))
        yield tuple(models)

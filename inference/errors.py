"""What can go wrong at the engine door, and whose fault it is."""


class EngineError(Exception):
    """Something went wrong with a request to an engine.

    Attributes:
        engine: id of the engine; empty if none was involved yet.
        over: True when it is sure that no engine works on the request any more, so that it may be sent elsewhere.
    """

    def __init__(self, message: str, *, engine: str = "", over: bool = True) -> None:
        super().__init__(f"{engine}: {message}" if engine else message)
        self.engine = engine
        self.over = over


class EngineNotReady(EngineError):
    """No engine can take the request now: none is registered, all are down or draining, or this one still starts."""


class EngineLost(EngineError):
    """The engine broke off: connection refused or reset, half an answer, an internal error, or its own abort."""


class EngineTooSlow(EngineError):
    """The deadline passed. The request was aborted on the engine."""


class EngineRefused(EngineError):
    """The engine will never answer this request.

    It is malformed, too long or not allowed, or asks for a constraint that the engine does not understand. Change
    the prompt, the profile or the engine's configuration.
    """


class EngineGarbled(EngineError):
    """The engine's answer is not what its protocol says: it may be another server, or a broken one."""


class Overloaded(EngineError):
    """A queue is full: ours in front of the engine, or the engine's own. Ask less, or later."""


class TenantLimited(Overloaded):
    """The tenant has used up its tokens per minute. Nothing was sent.

    Attributes:
        retry_after_seconds: when the next request may pass.
    """

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class LoadUnbelievable(EngineGarbled):
    """The engine lives, but what it says of its load cannot be: it is not used, and counted."""

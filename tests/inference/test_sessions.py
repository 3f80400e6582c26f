from inference.sessions import EngineSessions
from runtime.ids import EngineId

A, B = EngineId("a"), EngineId("b")


def test_every_engine_that_was_used_is_told_once() -> None:
    sessions = EngineSessions()
    sessions.use("e", B)
    sessions.use("e", A)
    sessions.use("e", A)

    assert sessions.take("e") == (A, B)
    assert sessions.take("e") == ()


def test_one_that_was_told_already_is_not_told_again() -> None:
    sessions = EngineSessions()
    sessions.use("e", A)
    sessions.use("e", B)

    assert sessions.forget("e", A)
    assert not sessions.forget("e", A)
    assert not sessions.forget("unknown", A)
    assert sessions.take("e") == (B,)


def test_the_table_is_bounded() -> None:
    sessions = EngineSessions(max_sessions=2)
    for key in ("e1", "e2", "e1", "e3"):
        sessions.use(key, A)

    assert len(sessions) == 2
    assert sessions.take("e2") == ()

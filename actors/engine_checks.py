"""What can be wrong with the engines of a scenario beyond their own configuration."""

from collections.abc import Sequence

from inference.command import exposures_in, profile_of, refusals_in, spans_cards
from inference.config import EngineConfig, LaunchKind, launch_of
from inference.errors import EngineRefused
from inference.topology import Link


def launch_problems(engine: EngineConfig) -> list[str]:
    """Why an engine is never started as it stands there; how cards are connected is asked on the host."""
    launch = launch_of(engine)
    if launch is None or launch.kind not in {LaunchKind.SGLANG, LaunchKind.VLLM}:
        return []
    problems = refusals_in(launch.args, pair=Link.PIX if spans_cards(launch) else None)
    if launch.model_path is not None:
        try:
            problems += exposures_in(launch, profile_of(engine, launch))
        except EngineRefused as error:
            problems.append(str(error).removeprefix(f"{engine.id}: "))
    return problems


def shared_cards(engines: Sequence[EngineConfig]) -> list[tuple[str, str]]:
    """(message, path) of every GPU that two engines are started on."""
    found = []
    users: dict[int, str] = {}
    for index, engine in enumerate(engines):
        launch = launch_of(engine)
        if launch is None or launch.kind is LaunchKind.REHEARSAL or engine.gpu is None:
            continue
        for card in (engine.gpu, *(() if launch.pair_gpu is None else (launch.pair_gpu,))):
            if card in users:
                message = (
                    f"engines {users[card]!r} and {engine.id!r} share GPU {card}: each takes its memory for itself"
                )
                found.append((message, f"$.engines[{index}].gpu"))
            users[card] = engine.id
    return found

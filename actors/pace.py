"""Whether a model can say its plans as fast as a phone plays them."""

from actors.profiles.checks import LONGEST_ACTION_TOKENS
from actors.scenario import PlannerConfig, Scenario
from inference.config import EngineConfig, LaunchKind, launch_of
from inference.latency_curve import A100_CURVE, LatencyCurve
from inference.profile import ModelProfile, ReplyCodec

TAP_TOKENS = len("T447,081")  # a token a character, as Qwen's tokenizer has digits and marks


def is_rehearsed(engine: EngineConfig) -> bool:
    """It is a stand-in, whose latency stands in its arguments and in no curve."""
    launch = launch_of(engine)
    return launch is not None and launch.kind is LaunchKind.REHEARSAL


def pace_warnings(
    scenario: Scenario, planner: PlannerConfig, profile: ModelProfile, curve: LatencyCurve = A100_CURVE
) -> list[str]:
    """What is wrong with the length of plans; nothing where every engine is a stand-in, or no plan overlaps.

    A plan of as many taps as are allowed takes TTFT + tokens x TPOT to say, at the engine's knee, and `act_seconds`
    each to play. A bot that says it longer than it plays it waits; one whose last action comes later than
    `max_age_seconds` after its frame drops that action.
    """
    if not planner.enabled or all(is_rehearsed(engine) for engine in scenario.engines):
        return []
    each = TAP_TOKENS if profile.codec is ReplyCodec.COMPACT else LONGEST_ACTION_TOKENS[profile.codec]
    tokens = min(profile.max_tokens, profile.max_actions * (each + 1) - 1)
    says = curve.step_ms(tokens, curve.knee()) / 1000.0
    plays = profile.max_actions * planner.act_seconds
    found = []
    what = f"a plan of {profile.max_actions} actions, {tokens} tokens, takes {says:.2f} s to say ({curve.source})"
    if planner.overlap and says > plays:
        found.append(
            f"{what} and {plays:.2f} s to play: the bot waits for the model; a more compact codec, or longer plans"
        )
    last = says + plays - planner.act_seconds
    if last > planner.max_age_seconds:
        found.append(
            f"{what}, so its last action comes {last:.2f} s after its frame, and max_age_seconds = "
            f"{planner.max_age_seconds:g} drops it: fewer actions a plan, or an older age"
        )
    if says > planner.timeout_seconds:
        found.append(f"{what}, and timeout_seconds = {planner.timeout_seconds:g} gives it up before")
    return found

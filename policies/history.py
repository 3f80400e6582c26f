"""What a model is told of its past plans: one line a plan, written once, when the fate of all its actions is known."""

from collections.abc import Iterable

import attrs

from inference.profile import ModelProfile
from policies.planner import HistoryLine, Window, window_after


@attrs.define
class _OpenPlan:
    described: str
    left: set[int]
    """Numbers of its actions whose fate is not known."""
    remarks: list[str]


@attrs.define
class History:
    """Closed lines, plans that are still open, and the window of the `append` layout."""

    profile: ModelProfile
    lines: list[HistoryLine] = attrs.field(factory=list)
    window: Window = attrs.field(factory=Window)
    previous_seq: int | None = None
    """Frame that the last plan was made on."""
    _open: list[_OpenPlan] = attrs.field(factory=list, alias="_open")

    def open_plan(self, described: str, seqs: Iterable[int], *, frame_seq: int, asked: str, said: str) -> None:
        """A reply has come.

        Args:
            described: Its actions as the model writes them.
            seqs: Numbers of those that will come up for execution; none closes the line at once.
            frame_seq: The frame that it was planned on.
            asked: The query text.
            said: The reply text.
        """
        plan = _OpenPlan(described, set(seqs), [])
        if plan.left:
            self._open.append(plan)
        else:
            self.lines.append(HistoryLine(described, "not done"))
        self.previous_seq = frame_seq
        self.window = window_after(self.window, self.profile, self.lines, (frame_seq, asked, said))

    def close_action(self, seq: int, remark: str) -> None:
        """The fate of one planned action is known; numbers of no open plan are ignored."""
        for plan in self._open:
            if seq not in plan.left:
                continue
            plan.left.discard(seq)
            plan.remarks.append(remark)
            if not plan.left:
                self._open.remove(plan)
                remarks = [r for r in dict.fromkeys(plan.remarks) if r != "done"]
                self.lines.append(HistoryLine(plan.described, ", ".join(remarks) or "done"))
            return

"""Comments as people write them, in two languages: names and enumerations, and no enumeration where there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlassist.column_comments import Said, said_in


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("状态: 1=正常 2=封禁", Said(zh="状态", values={"1": "正常", "2": "封禁"})),
        ("状态 1:正常;2:封禁;3:注销", Said(zh="状态", values={"1": "正常", "2": "封禁", "3": "注销"})),
        ("状态(1正常,2封禁)", Said(zh="状态", values={"1": "正常", "2": "封禁"})),
        ("性别（0：未知；1：男；2：女）", Said(zh="性别", values={"0": "未知", "1": "男", "2": "女"})),
        ("支付状态 0-未支付,1-已支付", Said(zh="支付状态", values={"0": "未支付", "1": "已支付"})),
        ("类型：1、普通 2、精英", Said(zh="类型", values={"1": "普通", "2": "精英"})),
        ("奖励类型 1金币 2钻石", Said(zh="奖励类型", values={"1": "金币", "2": "钻石"})),
        ("channel (1 ios, 2 android)", Said(en="channel", values={"1": "ios", "2": "android"})),
        ("Login type. 1: guest, 2: phone", Said(en="login type", values={"1": "guest", "2": "phone"})),
        ("platform: a=Android, i=iOS", Said(en="platform", values={"a": "Android", "i": "iOS"})),
        ("充值渠道 'ios'=苹果 'and'=安卓", Said(zh="充值渠道", values={"ios": "苹果", "and": "安卓"})),
        ("订单金额(元)", Said(zh="订单金额")),
        ("player id", Said(en="player id")),
        ("时间: 10:30", Said(zh="时间")),
        ("level from 1 to 100", Said(en="level from")),
        ("version 2 of 3", Said(en="version")),
        ("注册时间 2020-01-01 起", Said(zh="注册时间")),
        ("kind = login | logout", Said(en="kind")),
        ("12", Said()),
        ("", Said()),
    ],
)
def test_comments(comment: str, said: Said) -> None:
    assert said_in(comment) == said


@given(st.text(max_size=200))
def test_any_comment_can_be_read(comment: str) -> None:
    said = said_in(comment)

    assert len(said.values) != 1
    assert all(label.strip() for label in said.values.values())


def test_a_long_hostile_comment_ends_soon() -> None:
    said_in("1=" * 3000)
    said_in("(" * 3000 + "1 a, " * 1000)
    said_in("1 " * 5000)

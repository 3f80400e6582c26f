import base64
import hashlib
import hmac
import json
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.notices import MAX_TEXT_BYTES, Notice, Severity, Told, WebhookForm, request_for, was_taken

NOW = 1_796_000_000.5
NOTICE = Notice("phone:P1", "P1 is offline", Severity.CRITICAL, "for 5 minutes", (("tenant", "acme"),), "http://farm/1")


def test_a_generic_receiver_can_verify_what_it_got() -> None:
    request = request_for(NOTICE, WebhookForm.GENERIC, "http://host/hook", "s3cret", NOW)
    headers = dict(request.headers)

    expected = hmac.new(b"s3cret", headers["X-Corral-Timestamp"].encode() + b"." + request.body, hashlib.sha256)
    assert headers["X-Corral-Signature"] == f"sha256={expected.hexdigest()}"
    assert json.loads(request.body)["fields"] == {"tenant": "acme"}


def test_feishu_signs_in_the_body_by_its_second() -> None:
    body = json.loads(request_for(NOTICE, WebhookForm.FEISHU, "http://host/hook", "abc", NOW).body)

    assert body["msg_type"] == "text"
    assert "P1 is offline" in body["content"]["text"]
    assert body["timestamp"] == "1796000000"
    sign = hmac.new(b"1796000000\nabc", b"", hashlib.sha256).digest()
    assert body["sign"] == base64.b64encode(sign).decode()


def test_dingtalk_signs_in_the_address_by_its_millisecond() -> None:
    request = request_for(NOTICE, WebhookForm.DINGTALK, "http://host/send?access_token=t", "SECx", NOW)
    query = parse_qs(urlsplit(request.url).query)

    assert query["access_token"] == ["t"]
    assert query["timestamp"] == ["1796000000500"]
    sign = hmac.new(b"SECx", b"1796000000500\nSECx", hashlib.sha256).digest()
    assert query["sign"] == [base64.b64encode(sign).decode()]
    assert json.loads(request.body)["msgtype"] == "text"


@given(st.text(max_size=5000), st.sampled_from(WebhookForm))
def test_every_text_fits_every_form(text: str, form: WebhookForm) -> None:
    notice = Notice("k", text[:200], text=text)

    request = request_for(notice, form, "http://host/", "", NOW)

    data = json.loads(request.body)
    if form is WebhookForm.WECOM:
        assert len(data["text"]["content"].encode()) <= MAX_TEXT_BYTES
    assert len(notice.in_words().encode("utf-8", "replace")) <= MAX_TEXT_BYTES


@pytest.mark.parametrize(
    ("form", "status", "body", "taken"),
    [
        (WebhookForm.GENERIC, 204, b"", True),
        (WebhookForm.GENERIC, 500, b"", False),
        (WebhookForm.FEISHU, 200, b'{"code":0,"msg":"success"}', True),
        (WebhookForm.FEISHU, 200, b'{"code":19021,"msg":"sign match fail"}', False),
        (WebhookForm.DINGTALK, 200, b'{"errcode":0,"errmsg":"ok"}', True),
        (WebhookForm.DINGTALK, 200, b'{"errcode":310000,"errmsg":"sign not match"}', False),
        (WebhookForm.WECOM, 200, b'{"errcode":45009}', False),
        (WebhookForm.WECOM, 200, b"<html>", False),
        (WebhookForm.WECOM, 200, b"[]", False),
    ],
)
def test_robots_say_in_the_body_whether_they_took_it(form: WebhookForm, status: int, body: bytes, taken: bool) -> None:
    assert was_taken(form, status, body) is taken


def test_the_same_is_told_once_an_hour_and_anew_when_it_was_over() -> None:
    told = Told(3600.0)

    assert told.is_news(NOTICE, 0.0)
    assert not told.is_news(NOTICE, 3599.0)
    assert told.is_news(NOTICE, 3600.0)
    told.forget(NOTICE.key)
    assert told.is_news(NOTICE, 3601.0)


def test_a_secret_does_not_show() -> None:
    request = request_for(NOTICE, WebhookForm.WECOM, "http://host/send?key=hush", "", NOW)

    assert "hush" not in repr(request)

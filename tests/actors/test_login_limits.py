"""Failed logins are counted by address."""

from actors.login_limits import MAX_PEERS, FailedLogins


def test_an_address_waits_after_too_many_failures() -> None:
    logins = FailedLogins(3)
    for _ in range(3):
        assert logins.retry_after("192.0.2.1", 0.0) == 0
        logins.failed("192.0.2.1", 0.0)

    assert logins.retry_after("192.0.2.1", 0.0) == 20.0
    assert logins.retry_after("192.0.2.2", 0.0) == 0
    assert logins.retry_after("192.0.2.1", 20.0) == 0


def test_a_network_of_ipv6_is_one_and_mapped_addresses_are_ipv4() -> None:
    logins = FailedLogins(1)
    logins.failed("2001:db8::1", 0.0)
    logins.failed("::ffff:192.0.2.1", 0.0)

    assert logins.retry_after("2001:db8::ffff%eth0", 0.0) > 0
    assert logins.retry_after("2001:db8:0:1::1", 0.0) == 0
    assert logins.retry_after("192.0.2.1", 0.0) > 0
    assert logins.retry_after("192.0.2.2", 0.0) == 0


def test_no_more_addresses_are_remembered_than_is_said() -> None:
    logins = FailedLogins(1)
    for number in range(MAX_PEERS + 1):
        logins.failed(str(number), 0.0)

    assert logins.retry_after("0", 0.0) == 0
    assert logins.retry_after(str(MAX_PEERS), 0.0) > 0

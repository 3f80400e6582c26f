"""The farm's database, version by version. A version once released is never changed: a new one is added. Pure."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        number       INTEGER PRIMARY KEY AUTOINCREMENT,
        run          TEXT NOT NULL UNIQUE,
        tenant       TEXT NOT NULL,
        work         TEXT NOT NULL,
        origin       TEXT,
        state        TEXT NOT NULL,
        held         TEXT,
        reason       TEXT NOT NULL DEFAULT '',
        flaky        INTEGER NOT NULL DEFAULT 0,
        pinned       INTEGER NOT NULL DEFAULT 0,
        submitted_at REAL NOT NULL,
        ready_at     REAL NOT NULL,
        ended_at     REAL
    ) STRICT;
    CREATE INDEX runs_by_state ON runs (state, ready_at);
    CREATE INDEX runs_by_tenant ON runs (tenant, number);

    CREATE TABLE attempts (
        attempt    TEXT PRIMARY KEY,
        run        TEXT NOT NULL REFERENCES runs (run),
        tenant     TEXT NOT NULL,
        number     INTEGER NOT NULL,
        phones     TEXT NOT NULL,
        outcome    TEXT NOT NULL,
        reason     TEXT NOT NULL DEFAULT '',
        exit_code  INTEGER,
        started_at REAL NOT NULL,
        ended_at   REAL,
        result     TEXT,
        size_bytes INTEGER,
        removed    TEXT,
        UNIQUE (run, number)
    ) STRICT;
    CREATE UNIQUE INDEX attempts_under_way ON attempts (run) WHERE outcome = 'running';
    CREATE INDEX attempts_by_end ON attempts (ended_at);

    CREATE TABLE reservations (
        phone   TEXT PRIMARY KEY,
        attempt TEXT NOT NULL REFERENCES attempts (attempt)
    ) STRICT;

    CREATE TABLE pauses (
        phone TEXT PRIMARY KEY,
        user  TEXT NOT NULL,
        at    REAL NOT NULL
    ) STRICT;

    CREATE TABLE audit (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at     REAL NOT NULL,
        user   TEXT NOT NULL,
        tenant TEXT NOT NULL,
        token  TEXT NOT NULL,
        action TEXT NOT NULL,
        target TEXT NOT NULL,
        detail TEXT NOT NULL
    ) STRICT;
    CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
    CREATE TRIGGER audit_is_true BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
    """,
    """
    CREATE TABLE pins (
        pin        TEXT PRIMARY KEY,
        tenant     TEXT NOT NULL,
        user       TEXT NOT NULL,
        token      TEXT NOT NULL,
        draft      TEXT NOT NULL,
        created_at REAL NOT NULL,
        due_at     REAL,
        began_at   REAL,
        tries      INTEGER NOT NULL DEFAULT 0,
        paused     TEXT,
        beyond     INTEGER NOT NULL DEFAULT 0,
        last       TEXT
    ) STRICT;
    CREATE INDEX pins_by_due ON pins (due_at) WHERE due_at IS NOT NULL AND paused IS NULL;
    CREATE INDEX pins_by_owner ON pins (tenant, user);
    """,
    """
    ALTER TABLE attempts ADD COLUMN scanned_at REAL;
    ALTER TABLE attempts ADD COLUMN usage TEXT;
    CREATE INDEX attempts_unscanned ON attempts (ended_at) WHERE scanned_at IS NULL AND outcome != 'running';

    CREATE TABLE finding_costs (
        tenant  TEXT NOT NULL,
        finding TEXT NOT NULL,
        attempt TEXT NOT NULL REFERENCES attempts (attempt),
        usage   TEXT NOT NULL,
        PRIMARY KEY (tenant, finding, attempt)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    CREATE TABLE drained_engines (
        engine TEXT PRIMARY KEY
    ) STRICT;

    CREATE TABLE held_changes (
        number  INTEGER PRIMARY KEY,
        kind    TEXT NOT NULL,
        step    TEXT NOT NULL,
        refused INTEGER NOT NULL
    ) STRICT;
    """,
)
"""Script number n brings a database of version n to version n + 1. In `pauses`, the phone `*` is the whole farm."""

-- The schema of redlock, version 1. It may be run again: what is there stays as it is.
--
-- Run it as a user who may create schemas. Then let others use the locks:
--     GRANT USAGE ON SCHEMA redlock TO somebody;
--     GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA redlock TO somebody;
-- A user who is only to check fencing tokens in transactions of its own needs:
--     GRANT USAGE ON SCHEMA redlock TO somebody;
--     GRANT EXECUTE ON FUNCTION redlock.fenced(text, bigint) TO somebody;
BEGIN;

SET LOCAL client_min_messages = warning;

-- Two who run this at once come one after the other.
DO $$ BEGIN PERFORM pg_advisory_xact_lock(hashtext('redlock')); END $$;

CREATE SCHEMA IF NOT EXISTS redlock;

-- A row for each key: its last fencing token, and the holder of an exclusive lock. No index has what a grant writes, and the
-- pages are half empty, so a grant leaves nothing for vacuum.
CREATE TABLE IF NOT EXISTS redlock.lock (
    key text COLLATE "C" PRIMARY KEY CHECK (octet_length(key) <= 512),
    mode text NOT NULL DEFAULT 'exclusive',
    fence bigint NOT NULL,
    -- A hash of the owner token; NULL when nobody owns it, as after a release that a min-hold follows.
    owner bytea,
    since timestamptz,
    -- The end of the lease of an exclusive lock, or of the last lease of others.
    until timestamptz NOT NULL,
    hold_until timestamptz,
    broken text,
    -- The queue has waiters.
    queued boolean NOT NULL DEFAULT false,
    -- The owner whose process died while it asked.
    cancelled bytea,
    metadata text NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

-- The holders of shared locks and of permits: a row for each permit.
CREATE TABLE IF NOT EXISTS redlock.holder (
    key text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    owner bytea,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    hold_until timestamptz,
    broken text,
    -- The number of a permit.
    permit int,
    metadata text NOT NULL DEFAULT '{}',
    PRIMARY KEY (key, fence)
);

CREATE TABLE IF NOT EXISTS redlock.waiter (
    key text COLLATE "C" NOT NULL,
    -- The order of the queue: the time of arrival in microseconds, less the head start of the priority.
    ticket bigint NOT NULL,
    owner bytea NOT NULL,
    mode text NOT NULL,
    alive_until timestamptz NOT NULL,
    -- The channel that wakes it, and the server process of its connection; NULL behind a pooler.
    channel text,
    process int,
    server_start timestamptz NOT NULL,
    -- The permits of a semaphore that it wants.
    take int NOT NULL DEFAULT 1 CHECK (take BETWEEN 1 AND 1000),
    metadata text NOT NULL DEFAULT '{}',
    PRIMARY KEY (key, ticket)
);
CREATE UNIQUE INDEX IF NOT EXISTS waiter_owner ON redlock.waiter (owner, key);

-- The last runs of each key, and in slot 0 how many calls did not get the lock since then. A run takes the slot of one that is
-- forgotten, and no index has the rest: it leaves nothing for vacuum.
CREATE TABLE IF NOT EXISTS redlock.history (
    key text COLLATE "C" NOT NULL,
    slot int NOT NULL,
    number bigint NOT NULL,
    ended timestamptz NOT NULL,
    skipped bigint NOT NULL,
    run text NOT NULL,
    PRIMARY KEY (key, slot)
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS redlock.meta (version int NOT NULL);
INSERT INTO redlock.meta SELECT 1 WHERE NOT EXISTS (SELECT FROM redlock.meta);

-- All leases, also those that have ended.
CREATE OR REPLACE VIEW redlock.lease AS
    SELECT key, mode, fence, owner, since, until, hold_until, broken, NULL::int AS permit, metadata
    FROM redlock.lock WHERE mode = 'exclusive'
    UNION ALL
    SELECT h.key, l.mode, h.fence, h.owner, h.since, h.until, h.hold_until, h.broken, h.permit, h.metadata
    FROM redlock.holder h JOIN redlock.lock l ON l.key = h.key AND l.mode <> 'exclusive';

-- Called in a transaction of the job: fails if the lock with this fencing token is not held any more. Nobody else is granted the
-- lock before that transaction has ended.
CREATE OR REPLACE FUNCTION redlock.fenced(key text, fence bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM redlock.lock l WHERE l.key = fenced.key FOR KEY SHARE;
    PERFORM FROM redlock.lease l
    WHERE l.key = fenced.key AND l.fence = fenced.fence AND l.owner IS NOT NULL AND l.until > clock_timestamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lock ''%'' with fencing token % is not held any more', fenced.key, fenced.fence
            USING ERRCODE = '55000';
    END IF;
END
$$;
REVOKE ALL ON FUNCTION redlock.fenced(text, bigint) FROM PUBLIC;

COMMIT;

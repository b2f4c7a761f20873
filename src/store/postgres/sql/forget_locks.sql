-- The fencing tokens of a key that comes back are higher: they begin with the clock.
DELETE FROM redlock.lock WHERE key IN (
    SELECT key FROM redlock.lock WHERE until < clock_timestamp() - '30 days'::interval AND NOT queued LIMIT 1000
    FOR UPDATE SKIP LOCKED)

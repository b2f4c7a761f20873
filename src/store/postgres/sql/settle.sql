-- Writes down in the row of the key what others decide by.
UPDATE redlock.lock l SET queued = now.queued, until = now.until
FROM (
    SELECT EXISTS (SELECT FROM redlock.waiter WHERE key = $1::text) AS queued,
        CASE WHEN mode = 'exclusive' THEN until ELSE coalesce(
            (SELECT max(until) FROM redlock.holder WHERE key = $1::text), least(until, clock_timestamp())) END AS until
    FROM redlock.lock WHERE key = $1::text
) now
WHERE l.key = $1::text AND (l.queued, l.until) IS DISTINCT FROM (now.queued, now.until)

-- Changes the number of permits of a semaphore that is in use. A waiter that wants more than all of them leaves the queue.
WITH used AS MATERIALIZED (
    SELECT coalesce(
        (SELECT mode FROM redlock.lease WHERE key = $1::text AND until > clock_timestamp() LIMIT 1),
        (SELECT mode FROM redlock.waiter WHERE key = $1::text ORDER BY ticket LIMIT 1)) AS mode
), held AS (
    UPDATE redlock.lock l SET mode = 'permits:' || $2::text FROM used
    WHERE l.key = $1::text AND used.mode LIKE 'permits:%' AND l.mode LIKE 'permits:%'
), stays AS (
    UPDATE redlock.waiter w SET mode = 'permits:' || $2::text FROM used
    WHERE w.key = $1::text AND used.mode LIKE 'permits:%' AND w.take <= $2::text::bigint
), goes AS (
    DELETE FROM redlock.waiter w USING used
    WHERE w.key = $1::text AND used.mode LIKE 'permits:%' AND w.take > $2::text::bigint
    RETURNING w.channel
)
SELECT mode, (SELECT count(pg_notify(channel, 'first')) FROM goes WHERE channel IS NOT NULL) FROM used

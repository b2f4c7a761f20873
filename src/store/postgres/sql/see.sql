-- The state that a waiter sees, or a client that was not granted the lock: the holder that decides, how many there are, the queue.
SELECT l.fence, (extract(epoch FROM l.since) * 1000)::bigint, greatest((extract(epoch FROM l.until - clock_timestamp()) * 1000)::bigint, 0),
    (l.owner IS NULL)::int, l.broken, l.metadata, l.number,
    (SELECT count(*) FROM redlock.waiter WHERE key = $1::text
        AND ticket < coalesce((SELECT ticket FROM redlock.waiter WHERE key = $1::text AND owner = $2::bytea), 9223372036854775807)),
    coalesce(l.mode, (SELECT mode FROM redlock.waiter WHERE key = $1::text AND owner <> $2::bytea ORDER BY ticket LIMIT 1)),
    (SELECT count(*) FROM redlock.waiter WHERE key = $1::text AND owner = $2::bytea),
    (SELECT until <= clock_timestamp() FROM redlock.lock WHERE key = $1::text)::int,
    (l.owner = $2::bytea)::int
FROM (SELECT) one LEFT JOIN (
    SELECT *, (SELECT count(DISTINCT (owner, metadata)) FROM redlock.lease
        WHERE key = $1::text AND until > clock_timestamp()) AS number
    FROM redlock.lease WHERE key = $1::text AND until > clock_timestamp()
    ORDER BY CASE WHEN mode = 'shared' THEN until END DESC, until LIMIT 1
) l ON true

-- Gives the lock to the first waiters, as many as there is room for, and tells them. It does nothing while a transaction with
-- redlock.fenced() goes on. A waiter has three seconds to confirm.
WITH moment AS MATERIALIZED (
    -- The permits of one holder are one lease: they end together.
    SELECT clock_timestamp() + '3 s' AS ends
), row AS MATERIALIZED (
    SELECT key, mode, until, greatest(fence + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS fence
    FROM redlock.lock
    WHERE key = $1::text AND EXISTS (SELECT FROM redlock.waiter WHERE key = $1::text)
        AND (mode <> 'exclusive' OR until <= clock_timestamp())
    FOR UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT count(*) AS number FROM redlock.lease WHERE key = $1::text AND until > clock_timestamp()
), first AS MATERIALIZED (
    SELECT w.mode,
        CASE
            WHEN held.number > 0 AND row.mode <> w.mode THEN 0
            WHEN w.mode = 'exclusive' THEN greatest(1 - held.number, 0)
            WHEN w.mode = 'shared' THEN NULL
            ELSE greatest(substr(w.mode, 9)::bigint - held.number, 0)
        END AS room
    FROM row, held, redlock.waiter w WHERE w.key = row.key ORDER BY w.ticket LIMIT 1
), served AS MATERIALIZED (
    SELECT * FROM (
        -- Each permit that a waiter takes is a place.
        SELECT w.*, sum(w.take) OVER (ORDER BY w.ticket) AS last_place
        FROM row, first, redlock.waiter w
        WHERE w.key = row.key AND w.ticket < coalesce((
            SELECT ticket FROM redlock.waiter o, first f WHERE o.key = $1::text AND o.mode <> f.mode ORDER BY ticket LIMIT 1),
            9223372036854775807)
        ORDER BY w.ticket LIMIT (SELECT room FROM first)) next
    WHERE last_place <= coalesce((SELECT room FROM first), last_place)
), place AS MATERIALIZED (
    SELECT ticket, place, row.fence + place - 1 AS fence
    FROM row, served, generate_series(last_place - take + 1, last_place) place
), free AS MATERIALIZED (
    -- The lowest numbers of permits that no lease has; of so many numbers enough are free.
    SELECT number, row_number() OVER (ORDER BY number) AS place
    FROM first, generate_series(0, CASE WHEN first.mode LIKE 'permits:%'
        THEN (SELECT number FROM held) + (SELECT count(*) FROM place) - 1 ELSE -1 END) number
    WHERE number NOT IN (
        SELECT permit FROM redlock.holder WHERE key = $1::text AND permit IS NOT NULL AND until > clock_timestamp())
), taken AS (
    UPDATE redlock.lock l SET mode = s.mode, fence = s.last, since = clock_timestamp(), hold_until = NULL, broken = NULL,
        owner = CASE WHEN s.mode = 'exclusive' THEN s.owner END,
        until = greatest(clock_timestamp() + '3 s', CASE WHEN held.number > 0 THEN l.until END),
        metadata = s.metadata
    FROM held, (
        SELECT mode, owner, metadata, (SELECT max(fence) FROM place) AS last FROM served ORDER BY ticket LIMIT 1) s
    WHERE l.key = $1::text
), stale AS (
    DELETE FROM redlock.holder
    WHERE key = $1::text AND EXISTS (SELECT FROM served)
        AND (until <= clock_timestamp() OR (SELECT mode FROM row) = 'exclusive')
), holders AS (
    INSERT INTO redlock.holder (key, fence, owner, since, until, permit, metadata)
    SELECT key, fence, owner, clock_timestamp(), ends, number, metadata
    FROM moment, served JOIN place USING (ticket) LEFT JOIN free USING (place) WHERE mode <> 'exclusive'
), gone AS (
    DELETE FROM redlock.waiter WHERE key = $1::text AND ticket IN (SELECT ticket FROM served)
)
SELECT pg_notify(channel, 'granted') FROM served WHERE channel IS NOT NULL AND owner <> $2::bytea
UNION ALL
-- The next waiter is to look when the lease ends.
SELECT pg_notify(channel, 'first') FROM (
    SELECT channel, owner FROM redlock.waiter
    WHERE key = $1::text AND ticket > (SELECT max(ticket) FROM served) ORDER BY ticket LIMIT 1) next
WHERE channel IS NOT NULL AND owner <> $2::bytea

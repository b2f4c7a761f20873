-- Takes a place in the queue, or gives a sign of life. Under the lock of the row, so that tickets are in the order of arrival, but for
-- the head start of the priority. A waiter that has been there before takes the number of permits that there are by now.
WITH arrival AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $6::bigint AS ticket
), used AS (
    SELECT coalesce(
        (SELECT mode FROM redlock.lease WHERE key = $1::text AND until > clock_timestamp() LIMIT 1),
        (SELECT mode FROM redlock.waiter WHERE key = $1::text ORDER BY ticket LIMIT 1)) AS mode
), wanted AS (
    SELECT CASE WHEN $10::text <> '' AND $3::text LIKE 'permits:%' AND mode LIKE 'permits:%' AND $9::bigint <= substr(mode, 9)::bigint
        THEN mode ELSE $3::text END AS mode FROM used
)
INSERT INTO redlock.waiter (ticket, key, owner, mode, alive_until, channel, process, server_start, take, metadata)
SELECT greatest(arrival.ticket, 1 + (
        SELECT max(ticket) FROM redlock.waiter w WHERE w.key = $1::text AND w.ticket < arrival.ticket + $7::bigint)),
    $1::text, $2::bytea, wanted.mode, clock_timestamp() + CASE WHEN $4::text = '' THEN '6 s'::interval ELSE '15 s' END, nullif($4::text, ''), CASE WHEN $4::text <> '' THEN pg_backend_pid() END,
    pg_postmaster_start_time(), $9::int, $5::text
FROM used, wanted, arrival
WHERE NOT EXISTS (SELECT FROM redlock.lease WHERE key = $1::text AND owner = $2::bytea AND until > clock_timestamp())
    AND NOT EXISTS (SELECT FROM redlock.lock WHERE key = $1::text AND cancelled = $2::bytea)
    -- One of several locks is enough.
    AND NOT EXISTS (
        SELECT FROM redlock.lock WHERE key = ANY (ARRAY(SELECT json_array_elements_text($8::json)))
            AND owner = $2::bytea AND until > clock_timestamp())
    AND (used.mode IS NULL OR used.mode = wanted.mode OR used.mode || wanted.mode NOT LIKE '%permits:%')
ON CONFLICT (owner, key) DO UPDATE SET alive_until = excluded.alive_until, channel = excluded.channel,
    process = excluded.process, server_start = excluded.server_start

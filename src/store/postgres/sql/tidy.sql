-- Removes the dead at the head of the queue. A waiter lives as long as its connection, if that is its own. After a restart of the server it has some
-- seconds to come back.
DELETE FROM redlock.waiter WHERE key = $1::text AND ticket < coalesce((
    SELECT ticket FROM redlock.waiter w
    WHERE key = $1::text AND alive_until > clock_timestamp() AND (
        (server_start <> pg_postmaster_start_time() AND clock_timestamp() < pg_postmaster_start_time() + '6 s'::interval)
        OR w.process IS NULL OR EXISTS (SELECT FROM pg_stat_get_activity(w.process)))
    ORDER BY ticket LIMIT 1), 9223372036854775807)

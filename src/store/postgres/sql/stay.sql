-- Gives a sign of life in the queue, and says whether somebody who is alive is ahead. It waits for no other transaction.
UPDATE redlock.waiter mine SET alive_until = clock_timestamp() + CASE WHEN process IS NULL THEN '6 s'::interval ELSE '15 s' END
WHERE key = $1::text AND owner = $2::bytea AND (process IS NULL OR process = pg_backend_pid())
RETURNING EXISTS (
    SELECT FROM redlock.waiter w
    WHERE w.key = mine.key AND w.ticket < mine.ticket AND w.alive_until > clock_timestamp() AND (
        (w.server_start <> pg_postmaster_start_time() AND clock_timestamp() < pg_postmaster_start_time() + '6 s'::interval)
        OR w.process IS NULL OR EXISTS (SELECT FROM pg_stat_get_activity(w.process))))::int

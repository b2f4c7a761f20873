-- Releases an exclusive lock for which nobody waits.
UPDATE redlock.lock SET until = clock_timestamp(), owner = NULL
WHERE key = $1::text AND owner = $2::bytea AND mode = 'exclusive' AND until > clock_timestamp() AND NOT queued
    AND coalesce(hold_until <= clock_timestamp(), true) AND broken IS NULL
RETURNING fence

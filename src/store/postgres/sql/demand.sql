-- Takes back the whole transaction, by a division by zero, when the lock is not held.
SELECT 1 / count(*) FROM redlock.lease WHERE key = $1::text AND owner = $2::bytea AND until > clock_timestamp()

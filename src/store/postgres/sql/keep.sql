-- Releases an exclusive lock that its min-hold keeps.
UPDATE redlock.lock SET owner = NULL, until = hold_until
WHERE key = $1::text AND owner = $2::bytea AND mode = 'exclusive' AND until > clock_timestamp() AND broken IS NULL
    AND hold_until > clock_timestamp()

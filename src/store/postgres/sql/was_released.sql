SELECT fence FROM redlock.lock
WHERE key = $1::text AND fence = $2::bigint AND mode = 'exclusive' AND owner IS NULL AND broken IS NULL

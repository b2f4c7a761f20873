-- Frees an exclusive lock that was broken before, or whose holder cannot be told.
UPDATE redlock.lock SET owner = NULL, until = clock_timestamp(), hold_until = NULL, fence = fence + 1, broken = NULL
WHERE key = $1::text AND mode = 'exclusive' AND until > clock_timestamp() AND ($2::text = '' OR owner = decode($2::text, 'hex'))
    AND (broken IS NOT NULL OR owner IS NULL)

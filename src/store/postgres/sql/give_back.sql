-- Frees an exclusive lock. After a break the next renewal is not to find it released.
UPDATE redlock.lock SET owner = NULL, until = least(until, clock_timestamp()), hold_until = NULL,
    fence = fence + (broken IS NOT NULL)::int, broken = NULL
WHERE key = $1::text AND owner = $2::bytea AND mode = 'exclusive'

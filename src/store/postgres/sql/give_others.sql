-- Gives back those of the other locks that were handed over at the same time as this one.
UPDATE redlock.lock SET owner = NULL, until = least(until, clock_timestamp()), hold_until = NULL,
    fence = fence + (broken IS NOT NULL)::int, broken = NULL
WHERE key = ANY (ARRAY(SELECT json_array_elements_text($3::json))) AND owner = $2::bytea AND mode = 'exclusive'
    AND EXISTS (SELECT FROM redlock.lock WHERE key = $1::text AND owner = $2::bytea AND until > clock_timestamp())

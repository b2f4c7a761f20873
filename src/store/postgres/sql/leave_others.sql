-- Leaves the queues of these keys where one of them is held.
DELETE FROM redlock.waiter WHERE owner = $2::bytea AND key = ANY (ARRAY(SELECT json_array_elements_text($1::json)))
    AND EXISTS (
        SELECT FROM redlock.lock WHERE key = ANY (ARRAY(SELECT json_array_elements_text($1::json)))
            AND owner = $2::bytea AND until > clock_timestamp())

DELETE FROM redlock.waiter WHERE key = $1::text AND owner = $2::bytea

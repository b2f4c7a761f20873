DELETE FROM redlock.holder WHERE key = $1::text AND owner = $2::bytea

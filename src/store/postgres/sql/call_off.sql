-- The server process of a client that died may be about to carry out its last request: that one is not granted the lock.
UPDATE redlock.lock SET cancelled = $2::bytea WHERE key = $1::text

SELECT fence FROM redlock.lock WHERE key = $1::text FOR NO KEY UPDATE

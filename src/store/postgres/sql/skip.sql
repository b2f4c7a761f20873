-- Counts a call that did not get the lock.
INSERT INTO redlock.history AS x (key, slot, number, ended, skipped, run)
VALUES ($1::text, 0, 0, clock_timestamp(), 1, '')
ON CONFLICT (key, slot) DO UPDATE SET ended = excluded.ended, skipped = x.skipped + 1

-- Adds a run, with the calls that did not get the lock since the run before. It takes the slot of a run that is forgotten.
WITH counted AS (
    UPDATE redlock.history SET skipped = 0 WHERE key = $1::text AND slot = 0 AND skipped > 0
), runs AS (
    SELECT slot, number, run LIKE '%"outcome":"success"%' AS success FROM redlock.history WHERE key = $1::text AND slot > 0
), forgotten AS (
    SELECT slot FROM runs WHERE number <= (SELECT max(number) FROM runs) + 1 - $3::bigint
        AND ($2::text LIKE '%"outcome":"success"%' OR number IS DISTINCT FROM (SELECT max(number) FROM runs WHERE success))
    ORDER BY number LIMIT 1
)
INSERT INTO redlock.history (key, slot, number, ended, skipped, run)
SELECT $1::text, coalesce((SELECT slot FROM forgotten), (SELECT max(slot) + 1 FROM runs), 1),
    coalesce((SELECT max(number) + 1 FROM runs), 1), clock_timestamp(),
    coalesce((SELECT skipped FROM redlock.history WHERE key = $1::text AND slot = 0), 0), $2::text
ON CONFLICT (key, slot) DO UPDATE SET
    number = excluded.number, ended = excluded.ended, skipped = excluded.skipped, run = excluded.run

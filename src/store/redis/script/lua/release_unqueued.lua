-- The usual case of release.lua: one exclusive lock that this token holds, without a min-hold, and that nobody waits for.
-- Everything else is left to release.lua; so is a lock whose release python-redis-lock waits for, see `signal`.
if #KEYS == KEYS_OF_A_LOCK and ARGV[4] == '' and not string.find(ARGV[2], ':', 1, true) and string.sub(KEYS[1], 1, 5) ~= 'lock:'
    and redis.call('GET', KEYS[1]) == ARGV[2] and redis.call('ZCARD', KEYS[4]) == 0 then
  local last = redis.call('HMGET', KEYS[2], 'fence', 'keep', 'claim')
  if last[1] and not last[2] and not last[3] then
    if ARGV[5] then
      redis.call('PUBLISH', string.match(KEYS[4], '^redlock:{[^}]*}:') .. 'wake:quorum:' .. KEYS[1], ARGV[5])
    end
    redis.call('DEL', KEYS[1], KEYS[3])
    redis.call('HSET', KEYS[2], 'kind', '')
    leave(KEYS[1])
    return {1}
  end
end

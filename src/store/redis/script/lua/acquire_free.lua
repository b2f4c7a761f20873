-- The usual case of acquire.lua: one exclusive lock that is free, whose last lease was released, and that nobody waits
-- for. It writes what `grant` in queue.lua writes. Everything else is left to acquire.lua.
if #KEYS == KEYS_OF_A_LOCK and ARGV[7] == '' and ARGV[8] == '0' and ARGV[9] == 'exclusive' and not string.find(ARGV[2], ':', 1, true) then
  local lock, state, lease, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
  local token, ttl = ARGV[2], tonumber(ARGV[4])
  local last = redis.call('HMGET', state, 'fence', 'kind', 'keep', 'claim')
  if (not last[2] or last[2] == '') and not last[3] and not last[4] and redis.call('ZCARD', queue) == 0 then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local number = math.max((tonumber(last[1]) or 0) + 1, least_fence(time))
    if number <= HIGHEST_FENCE and redis.call('SET', lock, token, 'PX', ARGV[4], 'NX') then
      local fence = string.format('%.0f', number)
      redis.call('HSET', state, 'fence', fence, 'kind', 'exclusive', 'exclusive', 1)
      local known = string.format('%.0f %.0f %.0f %s %s', now + ttl, ttl, now, token, ARGV[5])
      redis.call('SET', lease, known, 'PX', string.format('%.0f', ttl + AFTERWARDS))
      redis.call('PEXPIRE', state, string.format('%.0f', RETENTION + math.max(ttl, number / 1000 - now)))
      enter(lock, now, ttl)
      return {'granted', fence}
    end
  end
end

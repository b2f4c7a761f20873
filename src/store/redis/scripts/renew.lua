-- Extends the lease. ARGV 4: ttl, 5: metadata, 6: the fence of the grant, or '' not to take a lock that is
-- gone again.
local ttl, metadata, fence = tonumber(ARGV[4]), ARGV[5], ARGV[6]
local owner = redis.call('GET', lock)
if owner == me then
  -- Never shorter: a job inside another may have the same lock with a shorter ttl.
  local left = redis.call('PTTL', lock)
  if left < ttl then
    redis.call('PEXPIRE', lock, ttl)
    redis.call('HSET', state, 'until', integer(now() + ttl), 'ttl', integer(ttl))
  end
  tell_first(math.max(left, ttl))
  return {'extended'}
end
if owner == 'released:' .. me then
  return {'released'}
end
if not owner and fence ~= '' then
  -- Gone. The counter shows whether anybody was granted the lock since; no counter, nobody was.
  local known = redis.call('HMGET', state, 'owner', 'fence', 'broken')
  if not known[1] and known[2] == fence and known[3] ~= fence then
    return {'released'}
  end
  if not known[2] or (known[1] == me and known[2] == fence) then
    local since = now()
    redis.call('SET', lock, me, 'PX', ttl)
    redis.call('HSET', state, 'owner', me, 'fence', fence, 'until', integer(since + ttl), 'ttl', integer(ttl),
      'metadata', metadata)
    redis.call('HSETNX', state, 'since', integer(since))
    redis.call('PEXPIRE', state, RETENTION)
    tell_first(ttl)
    return {'healed'}
  end
end
if owner then
  return {'lost', describe(owner)}
end
return {'lost'}

-- Extends the lease. ARGV 3: ttl, 4: metadata, 5: the fence of the grant, or '' not to take a lock that is
-- gone again, 6: the kind.
local ttl, metadata, fence, kind = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
owner = redis.call('GET', lock)
if owner == me then
  -- Never shorter: a job inside another may have the same lock with a shorter ttl.
  local left = redis.call('PTTL', lock)
  if left <= ttl then
    redis.call('PEXPIRE', lock, ttl)
    redis.call('HSET', state, 'until', integer(now() + ttl), 'ttl', integer(ttl))
  end
  tell_first(math.max(left, ttl))
  return {'extended'}
end

local known = redis.call('HMGET', state, 'owner', 'fence', 'kind', 'exclusive', 'broken', 'restarted')
look(known[3])
local mine = several[me]
if mine and mine.broken then
  return {'lost', describe_one(mine)}
elseif mine then
  if mine['until'] <= now() + ttl then
    mine['until'], mine.ttl = now() + ttl, ttl
    write(me)
  end
  tell_first(left())
  return {'extended'}
end
if owner == 'released:' .. me then
  return {'released'}
end
if fence ~= '' and kind == 'exclusive' and not owner and not held then
  -- Gone. The counter shows whether anybody was granted the lock since; no counter, nobody was.
  if not known[1] and known[2] == fence and known[5] ~= fence then
    return {'released'}
  end
  if not known[2] or (known[1] == me and known[2] == fence) then
    local since = now()
    redis.call('SET', lock, me, 'PX', ttl)
    redis.call('HSET', state, 'owner', me, 'fence', fence, 'until', integer(since + ttl), 'ttl', integer(ttl),
      'metadata', metadata, 'kind', kind)
    redis.call('HSETNX', state, 'since', integer(since))
    redis.call('PEXPIRE', state, RETENTION)
    tell_first(ttl)
    return {'healed'}
  end
elseif fence ~= '' and kind ~= 'exclusive' and admits(kind) and not known[4]
    and (not known[2] or now() - tonumber(known[6] or 0) < ttl) then
  -- The store lost its data not long ago, there is room, and nobody held the lock alone since.
  several[me] = {fence = fence, since = now(), ['until'] = now() + ttl, ttl = ttl, metadata = metadata}
  held = kind
  write(me)
  if not known[2] then
    redis.call('HSET', state, 'fence', fence, 'kind', kind, 'restarted', integer(now()))
    redis.call('PEXPIRE', state, RETENTION)
  end
  return {'healed'}
end
if owner or held then
  return {'lost', describe()}
end
return {'lost'}

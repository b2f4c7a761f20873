-- Takes the lock away from its holders; when ARGV 2 is not '', from that token only. ARGV 4: who breaks it. Returns what
-- was done, the holder, and whether the lock was handed over to another.
local breaker = ARGV[4]
read_holders(redis.call('HGET', state, 'kind'))
if held and held ~= 'exclusive' then
  local told, freed, before
  for token, holder in pairs(held_by) do
    if me == '' or me == token then
      before = before or describe_one(holder)
      if holder.broken or string.match(token, '^released:') then
        freed = token
        redis.call('HDEL', holders, token)
        held_by[token] = nil
        count = count - 1
      else
        -- It stops its job at the next renewal and then leaves.
        holder.broken, told = breaker, true
        write_holder(token)
      end
    end
  end
  local is_handed_over
  if freed and count == 0 then
    is_handed_over = free()
  elseif freed then
    is_handed_over = hand_over_now(last_grant())
  end
  if told or freed then
    return {told and 'told' or 'freed', before, is_handed_over and 1 or 0}
  end
  return {'other', describe()}
end
if not owner then
  free()
  return {'free'}
end
local told = string.match(owner, '^broken:(.*)$')
local before = describe()
if me ~= '' and me ~= owner and me ~= told then
  return {'other', before}
end
local released = string.match(owner, '^released:')
if not told and not released and read_lease().owner == owner then
  -- A redlock holds it: it stops its job at the next renewal and then frees the lock.
  redis.call('SET', lock, 'broken:' .. owner, 'KEEPTTL')
  redis.call('HSET', state, 'breaker', breaker)
  return {'told', before}
end
-- Not a redlock, told before, or there is nobody to tell. The broken fence tells a broken lock from a released one.
local last = last_grant()
local is_handed_over = free()
redis.call('HDEL', state, 'breaker')
if last.fence > 0 then
  redis.call('HSET', state, 'broken', integer(last.fence))
end
return {'freed', before, is_handed_over and 1 or 0}

-- Takes the lock from its holders; from the token of ARGV 2 only, when it is not ''. Returns what was done, who held
-- the lock, and whether it was handed over to another.
look(redis.call('HGET', state, 'kind'))
if held and held ~= 'exclusive' then
  local told, freed, before
  for token, holder in pairs(several) do
    if me == '' or me == token then
      before = before or describe_one(holder)
      if holder.broken or string.match(token, '^released:') then
        freed = token
        redis.call('HDEL', holders, token)
        several[token] = nil
        count = count - 1
      else
        -- It stops its job at the next renewal and then leaves.
        holder.broken, told = true, true
        write(token)
      end
    end
  end
  local is_handed_over
  if freed and count == 0 then
    is_handed_over = set_free()
  elseif freed then
    is_handed_over = pass_on(last_grant())
  end
  if told or freed then
    return {told and 'told' or 'freed', before, is_handed_over and 1 or 0}
  end
  return {'other', describe()}
end
if not owner then
  set_free()
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
  return {'told', before}
end
-- Not a redlock, told before, or there is nobody to tell. The fence that was broken tells a broken lock from
-- one that was given back.
local last = last_grant()
local is_handed_over = set_free()
if last.fence > 0 then
  redis.call('HSET', state, 'broken', integer(last.fence))
end
return {'freed', before, is_handed_over and 1 or 0}

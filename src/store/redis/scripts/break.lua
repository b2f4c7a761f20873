-- Takes the lock from its holder; from the token of ARGV 3 only, when it is not ''.
local owner = redis.call('GET', lock)
if not owner then
  set_free()
  return {'free'}
end
local told = string.match(owner, '^broken:(.*)$')
local before = describe(owner)
if me ~= '' and me ~= owner and me ~= told then
  return {'other', before}
end
local released = string.match(owner, '^released:')
if not told and not released and redis.call('HGET', state, 'owner') == owner then
  -- A redlock holds it: it stops its job at the next renewal and then frees the lock.
  redis.call('SET', lock, 'broken:' .. owner, 'KEEPTTL')
  return {'told', before}
end
-- Not a redlock, told before, or there is nobody to tell. The fence that was broken tells a broken lock from
-- one that was given back.
local last = last_grant()
set_free()
if last.fence > 0 then
  redis.call('HSET', state, 'broken', integer(last.fence))
end
return {'freed', before}

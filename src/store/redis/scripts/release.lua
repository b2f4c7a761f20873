-- Gives the lock back. ARGV 4: the place in the queue to leave, which also cancels the grant: then its
-- min-hold does not count; or ''.
local member = ARGV[4]
local was_first = member ~= '' and redis.call('ZRANK', queue, member) == 0
if member ~= '' then
  redis.call('ZREM', queue, member)
end
local owner = redis.call('GET', lock)
if owner == 'broken:' .. me then
  -- Its owner has stopped: the break is complete.
  set_free()
  return 0
end
if owner ~= me then
  if not owner and redis.call('HGET', state, 'owner') == me then
    -- Removed behind our back: those in line need not wait for the end of the lease.
    set_free()
  elseif was_first then
    -- Who is the first now has to look after the holder.
    tell_first()
  end
  return 0
end
local last = last_grant()
local keep = last.keep and member == '' and last.keep - now() or 0
if keep > 0 then
  -- Nobody's any more: only the time holds it.
  redis.call('SET', lock, 'released:' .. me, 'PX', integer(keep))
  redis.call('HSET', state, 'owner', 'released:' .. me, 'until', integer(now() + keep))
  tell_first(keep)
else
  set_free(last)
end
return 1

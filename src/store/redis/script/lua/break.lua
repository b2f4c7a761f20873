-- Takes the lock away from its holders; when ARGV 2 is not '', from that token only. ARGV 4: who breaks it, 5: a number of this
-- call, 6: the fence of the grant whose holder is to be told, while everything else stays, or ''. Returns what was done, the holder, and whether the lock was handed over to another.
local breaker, call, fence = ARGV[4], ARGV[5], ARGV[6]
local last_mode, last_call, last_fence = unpack(redis.call('HMGET', state, 'kind', 'call', 'fence'))
read_holders(last_mode)
local known = remembered_lease(last_mode)
if known['until'] > now() then
  owner, held = known.owner, 'exclusive'
end
local before = (owner or held) and describe() or {}

-- Breaking a lock that is broken frees it, which this call was not meant to do: the answer to it was lost, and it came again.
local earlier, outcome = string.match(last_call or '', '^(%S+) (%S+)$')
if earlier == call then
  return {outcome, before, 0}
end

local function done(what, is_handed_over)
  redis.call('HSET', state, 'call', call .. ' ' .. what)
  if redis.call('PTTL', state) < 0 then
    redis.call('PEXPIRE', state, RETENTION)
  end
  return {what, before, is_handed_over and 1 or 0}
end

if held and held ~= 'exclusive' then
  local told, freed
  for token, holder in pairs(held_by) do
    local is_gone = holder.broken or string.match(token, '^released:')
    if (me == '' or me == token) and (fence == '' or fence == holder.fence and not is_gone) then
      before = (told or freed) and before or describe_one(holder)
      if is_gone then
        freed = token
        drop_holder(token)
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
    return done(told and 'told' or 'freed', is_handed_over)
  end
  return {'other', before}
end
if not owner then
  if fence == '' then free() end
  return {'free'}
end
local told = string.match(owner, '^broken:(.*)$')
if me ~= '' and me ~= owner and me ~= told then
  return {'other', before}
end
local released = string.match(owner, '^released:')
local can_be_told = not told and not released and read_lease().owner == owner
if fence ~= '' and not (can_be_told and fence == last_fence) then
  return {'other', before}
end
if can_be_told then
  -- A redlock holds it: it stops its job at the next renewal and then frees the lock.
  local expiry = known.owner and {'PX', integer(known['until'] - now())} or {'KEEPTTL'}
  redis.call('SET', lock, 'broken:' .. owner, unpack(expiry))
  redis.call('HSET', state, 'breaker', breaker)
  return done('told')
end
-- Not a redlock, told before, or there is nobody to tell. The broken fence tells a broken lock from a released one.
local last = last_grant()
local is_handed_over = free()
redis.call('HDEL', state, 'breaker')
if last.fence > 0 then
  redis.call('HSET', state, 'broken', integer(last.fence))
end
return done('freed', is_handed_over)

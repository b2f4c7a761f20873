-- Changes the number of permits of a semaphore that is in use to ARGV 4. Returns how many there were.
local last = last_grant()
read_holders(redis.call('HGET', state, 'kind'))
local first = first_waiter(last)
local there = held or first and current(mode_of(first), last)
if not there then return {'free'} end
if not is_semaphore(there) then return {'mode', there} end
if held then
  held = 'permits:' .. ARGV[4]
  local _, latest = left()
  redis.call('SET', lock, held, 'PX', integer(math.max(latest - now(), 1)))
  redis.call('HSET', state, 'kind', held)
end
redis.call('HSET', state, 'permits', ARGV[4])
last.permits = tonumber(ARGV[4])
-- A waiter that wants more than all of them would wait for ever, and so would those behind it.
for _, member in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
  if take_of(mode_of(member), metadata_of(member)) > last.permits then
    dequeue(member)
    notify(member, 'ask')
  end
end
local is_handed_over = hand_over_now(last)
if not is_handed_over then
  notify_first(left())
end
return {'resized', capacity(there), is_handed_over and 1 or 0}

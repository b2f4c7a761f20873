-- Acquires one of the locks, the first that is free; or says of each who holds it. ARGV: see request.lua. The request has the same
-- ticket in all queues, and leaves them by a call of its own.
local locks, busy, vanished = #KEYS / KEYS_OF_A_LOCK, {'busy'}, {}

-- One of them was handed over, or the answer to an earlier request was lost.
for number = 1, locks do
  select_lock(number)
  local fence = read_owner() == me and confirm(number)
  if fence then return {'granted', number, fence} end
end
if queueing ~= 'once' and ticket == '' then
  local latest = 0
  for number = 1, locks do
    select_lock(number)
    latest = math.max(latest, new_ticket())
  end
  ticket = integer(latest)
end
for number = 1, locks do
  select_lock(number)
  confirm(number)
  local refusal = refuse(number)
  if not refusal then return {'granted', number, take()} end
  if refusal[1] == 'vanished' then
    vanished[#vanished + 1] = number
  elseif refusal[1] == 'busy' then
    busy[number + 1] = refusal
  else
    return refusal
  end
end
return #vanished > 0 and {'vanished', ticket, unpack(vanished)} or busy

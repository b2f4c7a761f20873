-- Acquires the locks, all or none; or says which one is not free, and who holds it. ARGV: see request.lua. A place in the queue
-- is for one lock alone.
local answer = {'granted'}
for number = 1, #KEYS / KEYS_OF_A_LOCK do
  select_lock(number)
  answer[number + 1] = confirm(number) or false
  local refusal = not answer[number + 1] and refuse(number)
  if refusal then return refusal end
end
for number = 1, #KEYS / KEYS_OF_A_LOCK do
  if #KEYS > KEYS_OF_A_LOCK and not answer[number + 1] then
    select_lock(number)
    confirm(number)
  end
  answer[number + 1] = answer[number + 1] or take()
end
return answer

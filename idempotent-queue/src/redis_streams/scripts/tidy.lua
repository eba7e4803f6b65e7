-- Removes consumers of the group that have nothing pending and were not heard of for a while.
-- KEYS: the stream. ARGV: group, idle time in milliseconds, most consumers to remove. Returns their number.
local removed = 0
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  if removed == tonumber(ARGV[3]) then break end
  local is = {}
  for i = 1, #consumer, 2 do is[consumer[i]] = consumer[i + 1] end
  if is.pending == 0 and is.idle >= tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], is.name)
    removed = removed + 1
  end
end
return removed

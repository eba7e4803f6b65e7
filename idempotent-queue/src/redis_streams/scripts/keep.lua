-- Sets the idle time of entries that this consumer has had since.
-- KEYS: the stream. ARGV: group, consumer, and of each entry its id, the number of the delivery, and the
-- idle time in milliseconds. Returns for each 1, 0 if another consumer has it or it is acknowledged, and -1 if
-- it was trimmed or deleted; then it is acknowledged.
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local kept = {}
for i = 3, #ARGV, 3 do
  local id = ARGV[i]
  local entry = redis.call('XPENDING', stream, group, id, id, 1)[1]
  if not entry or entry[2] ~= consumer or entry[4] ~= tonumber(ARGV[i + 1]) then
    kept[#kept + 1] = 0
  elseif #redis.call('XRANGE', stream, id, id) == 0 then
    redis.call('XACK', stream, group, id)
    kept[#kept + 1] = -1
  else
    redis.call('XCLAIM', stream, group, consumer, 0, id, 'IDLE', ARGV[i + 2], 'JUSTID')
    kept[#kept + 1] = 1
  end
end
return kept

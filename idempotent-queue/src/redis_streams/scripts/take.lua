-- The beginning of the scripts that take entries.
-- KEYS: the stream. ARGV: group, consumer, and those of each script.
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local taken, gone = {}, {}

-- Takes a pending entry, as one more delivery. An entry that was trimmed or deleted is acknowledged.
local function take(id, deliveries)
  local found = redis.call('XRANGE', stream, id, id)
  if #found == 0 then
    redis.call('XACK', stream, group, id)
    gone[#gone + 1] = id
  else
    deliveries = deliveries + 1
    redis.call('XCLAIM', stream, group, consumer, 0, id, 'RETRYCOUNT', deliveries, 'JUSTID')
    taken[#taken + 1] = {id, deliveries, found[1][2]}
  end
end


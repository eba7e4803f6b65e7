-- Extends the life of a record if it is the one that the caller saw: its head is compared, not its value, and not a
-- waiter's mark.
-- KEYS: record. ARGV: head of the record as seen; its time to live; longest time to live that the seen record may have,
-- empty if any.
-- Answers 1 if it lives for so long, else the record as it is and its time to live.
local head = redis.call('GETRANGE', KEYS[1], 0, string.len(ARGV[1]))
if string.len(head) >= 4 then
  local mark, flags = string.byte(head, 3, 4)
  -- The fourth flag says that a value follows.
  if flags % 16 >= 8 then
    flags = flags - 8
    head = string.sub(head, 1, string.len(ARGV[1]))
  end
  head = string.sub(head, 1, 2) .. string.char(mark == 1 and 0 or mark, flags) .. string.sub(head, 5)
end
local ttl = redis.call('PTTL', KEYS[1])
if head ~= ARGV[1] or (ARGV[3] ~= '' and ttl > tonumber(ARGV[3])) then
  return { redis.call('GET', KEYS[1]), ttl }
end
-- A record without an end stays so: another program took its time to live away.
if ttl >= 0 and ttl < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1

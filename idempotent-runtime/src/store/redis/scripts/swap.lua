-- Replaces a record if it is the one that the caller saw: its head is compared, not its value, and not a waiter's mark.
-- KEYS: record. ARGV: head of the record as seen, empty if none; record to write, empty to delete; its time to live;
-- longest time to live that the seen record may have, empty if any; channel; how to publish; 1 if a full server takes it.
-- Answers 1 if it was replaced, else the record as it is and its time to live.
local now = redis.call('GET', KEYS[1])
local marked = now and string.byte(now, 3) == 1
local head = now or ''
if string.len(head) >= 4 then
  local flags = string.byte(head, 4)
  -- The fourth flag says that a value follows.
  if flags % 16 >= 8 then
    flags = flags - 8
    head = string.sub(head, 1, string.len(ARGV[1]))
  end
  head = string.sub(head, 1, 2) .. (marked and '\0' or string.sub(head, 3, 3)) .. string.char(flags) .. string.sub(head, 5)
end
local ttl = redis.call('PTTL', KEYS[1])
if head ~= ARGV[1] or (ARGV[4] ~= '' and ttl > tonumber(ARGV[4])) then
  return { now, ttl }
end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  -- A server that is full refuses the first command that takes memory, but not a later one.
  if ARGV[7] == '1' then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
  end
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
if marked then
  -- Those who wait also poll: a refused notification is no reason to fail.
  redis.pcall(ARGV[6], ARGV[5], KEYS[1])
end
return 1

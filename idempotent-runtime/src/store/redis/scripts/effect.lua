-- Runs `effect` and records its answer, both or neither, unless `effect` fails half way.
-- KEYS: record, then those of the effect. ARGV: record as seen, without a mark, empty if none; longest time to live
-- that it may have, empty if any; record that says that the outcome is unknown; its time to live;
-- record of the answer, to which the answer is added; record of a free key; the time to live of both;
-- then those of the effect.
-- Answers {'seen', record, time to live}, {'done', answer}, {'refused', reason} or
-- {'failed', reason}; the last leaves the outcome unknown.
local now = redis.call('GET', KEYS[1])
local bare = now
if now and string.byte(now, 3) == 1 then
  bare = string.sub(now, 1, 2) .. '\0' .. string.sub(now, 4)
end
local same = ARGV[1] ~= '' and bare == ARGV[1] or ARGV[1] == '' and not now
if not same or (ARGV[2] ~= '' and redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2])) then
  return { 'seen', now, redis.call('PTTL', KEYS[1]) }
end
-- Written first: whatever happens from here on, nobody runs the effect a second time unasked.
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
local keys, arguments = {}, {}
for index = 2, #KEYS do
  keys[index - 1] = KEYS[index]
end
for index = 8, #ARGV do
  arguments[index - 7] = ARGV[index]
end
local ended, answer = pcall(effect, keys, arguments)
if type(answer) == 'table' and answer.err then
  ended, answer = false, answer.err
end
if not ended then
  return { 'failed', tostring(answer) }
end
if type(answer) == 'table' and answer.refused then
  -- Not what was there before: a late copy that saw that would run after the refusal was told.
  redis.call('SET', KEYS[1], ARGV[6], 'PX', ARGV[7])
  return { 'refused', tostring(answer.refused) }
end
if type(answer) == 'number' then
  answer = answer == math.floor(answer) and string.format('%.0f', answer) or tostring(answer)
end
if type(answer) ~= 'string' then
  return { 'failed', 'it answered neither a text nor a number' }
end
redis.call('SET', KEYS[1], ARGV[5] .. answer, 'PX', ARGV[7])
return { 'done', answer }

import { expect, test } from 'vitest';
import { plainText } from './plain-text.ts';

test.each([
  ['\x1b[1;31mred\x1b[0m \x1b]0;title\x07text', 'red text'],
  ['10 %\r50 %\r100 %\nend', '100 %\nend'],
  ['a\r\nb\r\n', 'a\nb\n'],
  ['waiting\r', 'waiting'],
  ['\tindented\x00\x08', '\tindented'],
  ['left \u202eright', 'left right'],
  ['\x1b]8;;http://example.com\x1b\\link\x1b]8;;\x1b\\', 'link'],
])('the plain text of %j is %j', (text, plain) => {
  expect(plainText(text)).toBe(plain);
});

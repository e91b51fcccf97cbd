import fc from 'fast-check';
import { expect, test } from 'vitest';
import { reasonOnPage, textOfPage, withoutExceptionNames, withoutStackTrace } from './error-text.ts';

test("a page's text has no markup, scripts, styles or title", () => {
  const page =
    '<html><head><TITLE>Error 403</TITLE><style>a { b: c }</style></head><body class="x"><h2>HTTP ERROR 403</h2>\n<script>1 < 2</script>No <b>rule</b>';
  expect(textOfPage(page)).toBe('HTTP ERROR 403 No rule');
  expect(textOfPage('a < b')).toBe('a b');
  expect(textOfPage('')).toBe('');
});

test('the reason on a page is the row of the message, without the name of the exception', () => {
  const page =
    '<table><tr><th>URI:</th><td>/</td></tr><tr><th>MESSAGE:</th>\n<td>a.b.C$D: No rules &amp; x</td></tr><tr><td>more</td></tr></table>';
  expect(reasonOnPage(page)).toBe('No rules &amp; x');
  expect(reasonOnPage('<h1>Denied: by policy</h1>')).toBe('Denied: by policy');
  expect(reasonOnPage('<th>MESSAGE:</th>nothing')).toBe('MESSAGE: nothing');
});

test('names of exceptions are removed, and names of queues are not', () => {
  expect(withoutExceptionNames('a.YarnException: b.c.AccessControlException: root.x: User bob cannot submit')).toBe(
    'root.x: User bob cannot submit',
  );
  expect(withoutExceptionNames('IOException: x')).toBe('IOException: x');
});

test('a stack trace is removed', () => {
  expect(withoutStackTrace('at the end\nsecond line\n\n\tat a.b(C.java:1)\n\tat d')).toBe('at the end\nsecond line');
  expect(withoutStackTrace('x\n at a')).toBe('x');
});

test('hostile text of any length is read only in part', () => {
  const units = ['<', '<script ', '<script>', '</script', 'MESSAGE:</th>', '<td>', '\n', '\n ', ' at', 'a.', 'a.Exception: ', '>', '\t'];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...units), { minLength: 1, maxLength: 5 }), (parts) => {
      const text = parts.join('').repeat(200_000);
      for (const read of [textOfPage, reasonOnPage, withoutStackTrace]) {
        expect(read(text).length).toBeLessThanOrEqual(32 * 1024);
      }
      expect(withoutExceptionNames(text).length).toBeLessThanOrEqual(text.length);
    }),
    { numRuns: 60 },
  );
});

import { expect, test } from 'vitest';
import { withheldNotes } from './withheld-note.ts';

test('the note lists the first excluded files, and states how to include one', () => {
  expect(withheldNotes([])).toEqual([]);
  expect(withheldNotes(['.env', 'keys/id_rsa'])).toEqual([
    'Not uploaded because the file names indicate secrets: .env, keys/id_rsa. A line !.env in .tonyignore includes .env.',
  ]);
  expect(withheldNotes(['a.key', 'b.key', 'c.key', 'd.key', 'e.key', 'f.key', 'g.key'])[0]).toContain(
    'd.key, e.key and 2 more. A line !a.key',
  );
});

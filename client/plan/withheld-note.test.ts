import { expect, test } from 'vitest';
import { withheldNotes } from './withheld-note.ts';

test('the note lists the first excluded files, and states how to include one', () => {
  expect(withheldNotes([])).toEqual([]);
  expect(withheldNotes(['.env', 'keys/id_rsa'])).toEqual([
    'Not uploaded because the names suggest that these files contain secrets: .env, keys/id_rsa. To include .env, add the line !.env to .tonyignore.',
  ]);
  expect(withheldNotes(['a.key', 'b.key', 'c.key', 'd.key', 'e.key', 'f.key', 'g.key'])[0]).toContain(
    'd.key, e.key and 2 more. To include a.key, add the line !a.key',
  );
});

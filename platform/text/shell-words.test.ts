import fc from 'fast-check';
import { expect, test } from 'vitest';
import { programName, simpleCommands } from './shell-words.ts';

test.each<[string, [string[], string[]][]]>([
  ['node train.ts', [[[], ['node', 'train.ts']]]],
  [
    'A=1 B="x y" python3 "my train.py" --a=\'b c\'',
    [
      [
        ['A=1', 'B=x y'],
        ['python3', 'my train.py', '--a=b c'],
      ],
    ],
  ],
  [
    'cd x && ./run.sh;  A=1\necho (b|c) &',
    [
      [[], ['cd', 'x']],
      [[], ['./run.sh']],
      [['A=1'], []],
      [[], ['echo']],
      [[], ['b']],
      [[], ['c']],
    ],
  ],
  ['', []],
])('the simple commands of %j', (text, commands) => {
  expect(simpleCommands(text)).toEqual(commands.map(([assignments, words]) => ({ assignments, words })));
});

test('no word contains spaces outside of quotes, and every letter is kept', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom('a', 'B=1', '/b.py', '-m', '&&', ';')), (parts) => {
      const words = simpleCommands(parts.join(' ')).flatMap((each) => [...each.assignments, ...each.words]);
      expect(words).toEqual(parts.filter((part) => !/[;&]/.test(part)));
    }),
  );
});

test('the name of a program has no folder', () => {
  expect(['/usr/bin/python3', 'python3', './a/b'].map(programName)).toEqual(['python3', 'python3', 'b']);
});

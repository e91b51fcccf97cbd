import { expect, test } from 'vitest';
import { CASES, resultOfSpace, resultOfTable } from './sweep-cases.ts';

test.each(CASES.spaces)('configurations of $space', (each) => {
  expect(resultOfSpace(each)).toEqual(each.result);
});

test.each(CASES.tables)('the $mode of $metric: order, table and texts', (each) => {
  expect(resultOfTable(each)).toEqual(each.result);
});

import { expect, test } from 'vitest';
import type { NodeToProbe } from '../../conf/node-probe.ts';
import { ProbeLedger } from './probe-ledger.ts';

const target = (node: string): NodeToProbe => ({ node, host: node.split(':')[0] ?? '', rack: '/default-rack', label: null });
const facts = (port = 40_000) => ({ facts: 'tony-probe glibc=2.36\n', port, storage: '' });

test('each NodeManager of a host gets one container', () => {
  const ledger = new ProbeLedger(['h:1', 'h:2', 'other:1'].map(target));
  expect(ledger.missingOn('h')).toBe(2);
  expect(ledger.allocated('c1', 'h:1')).toBe(true);
  expect(ledger.allocated('c2', 'h:1')).toBe(false);
  expect(ledger.allocated('c3', 'unknown:1')).toBe(false);
  expect(ledger.missingOn('h')).toBe(1);
});

test('listening containers connect to each other and report which nodes they reach', () => {
  const ledger = new ProbeLedger(['a:1', 'b:1', 'c:1'].map(target));
  for (const name of ['a', 'b', 'c']) {
    ledger.allocated(`of-${name}`, `${name}:1`);
  }
  ledger.facts('of-a', facts(1));
  ledger.facts('of-b', facts(2));
  expect(ledger.hasAllFacts).toBe(false);
  ledger.ended('of-c', 64, 'tony-probe glibc=2.17\ntony-probe runtimeError=GLIBC_2.28 not found\n');
  expect(ledger.hasAllFacts).toBe(true);
  expect([...ledger.peers()]).toEqual([
    ['of-a', [{ node: 'b:1', host: 'b', port: 2 }]],
    ['of-b', [{ node: 'a:1', host: 'a', port: 1 }]],
  ]);
  ledger.reached('of-a', { tried: 1, unreached: [{ node: 'b:1', reason: 'refused' }] });
  ledger.ended('of-b', 137, '');
  expect(ledger.hasAllReached).toBe(true);
  expect(ledger.nodes(1000)).toMatchObject([
    { node: 'a:1', notProbed: '', tried: 1, unreached: [{ node: 'b:1' }] },
    { node: 'b:1', notProbed: '', facts: { glibc: ['2.36'] }, tried: 0 },
    { node: 'c:1', notProbed: '', facts: { glibc: ['2.17'] }, storage: null },
  ]);
});

test('nodes without a report are listed with the reason', () => {
  const ledger = new ProbeLedger(['full:1', 'slow:1', 'broken:1', 'refused:1'].map(target));
  ledger.allocated('of-slow', 'slow:1');
  ledger.allocated('of-broken', 'broken:1');
  ledger.ended('of-broken', -1000, 'No space left on device');
  ledger.refused('refused', 'the queue may not use this label');
  expect(ledger.nodes(60_000).map(({ notProbed }) => notProbed)).toEqual([
    'YARN had no room for a container within 60 s',
    'its container did not report within 60 s',
    'The container could not be launched: No space left on device',
    'the queue may not use this label',
  ]);
});

test('in a large cluster, each node connects to at most 64 other nodes', () => {
  const names = Array.from({ length: 100 }, (_, at) => `n${at}`);
  const ledger = new ProbeLedger(names.map((name) => target(`${name}:1`)));
  for (const name of names) {
    ledger.allocated(name, `${name}:1`);
    ledger.facts(name, facts());
  }
  const peers = ledger.peers();
  expect(new Set([...peers.values()].map(({ length }) => length))).toEqual(new Set([64]));
  expect(peers.get('n99')?.[0]?.node).toBe('n0:1');
});

import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import { capture } from '../testing/capture.ts';
import { formatContainerId } from './application-id.ts';
import { decodeMessage, encodeDelimited, splitDelimited } from './messages.ts';
import {
  completedOfMessage,
  containerIdOfMessage,
  containerOfMessage,
  endpointOfNode,
  messageOfContainerId,
  messageOfResources,
  resourcesOfMessage,
} from './records.ts';

function overWire<Name extends keyof HadoopMessages>(name: Name, value: HadoopMessages[Name]): HadoopMessages[Name] {
  return decodeMessage(name, splitDelimited(encodeDelimited(name, value), 0).message);
}

test('container IDs survive encoding and decoding, including numbers beyond 2^53', () => {
  const id = fc.record({
    epoch: fc.integer({ min: 0, max: 2 ** 20 }),
    application: fc.record({ clusterTimestamp: fc.integer({ min: 1, max: 2 ** 45 }), sequence: fc.integer({ min: 1, max: 99_999 }) }),
    attempt: fc.integer({ min: 1, max: 1000 }),
    sequence: fc.integer({ min: 1, max: 2 ** 39 }),
  });
  fc.assert(
    fc.property(id, (value) => {
      const text = formatContainerId(value);
      expect(containerIdOfMessage(overWire('ContainerIdProto', messageOfContainerId(text)))).toBe(text);
    }),
  );
  expect(messageOfContainerId('container_e9000_1795225023264_0004_01_000002').id).toBe(String((9000n << 40n) | 2n));
});

test('resources survive encoding and decoding, with memory and vcores in their own fields', () => {
  const resources = { 'memory-mb': 2048, vcores: 2, 'yarn.io/gpu': 1, 'yarn.io/fpga': 0 };
  const message = messageOfResources(resources, new Map([['yarn.io/gpu', 'G']]));
  expect(message).toMatchObject({ memory: '2048', virtual_cores: 2 });
  expect(message.resource_value_map.map(({ key, units }) => [key, units])).toEqual([
    ['yarn.io/gpu', 'G'],
    ['yarn.io/fpga', ''],
  ]);
  expect(resourcesOfMessage(overWire('ResourceProto', message))).toEqual(resources);
});

test('reads the containers that a real ResourceManager allocated', () => {
  const frames = capture('amrm-handshake.hex').filter(({ from }) => from === 'server');
  const allocated = frames.slice(3).flatMap(({ bytes }) => {
    const { next } = splitDelimited(bytes, 4);
    const message = splitDelimited(bytes, next).message;
    return decodeMessage('AllocateResponseProto', message).allocated_containers.map(containerOfMessage);
  });
  expect(
    allocated.map(({ id, node, nodeHttp, resources, priority, allocationRequestId }) => ({
      id,
      node,
      nodeHttp,
      resources,
      priority,
      allocationRequestId,
    })),
  ).toMatchInlineSnapshot(`
    [
      {
        "allocationRequestId": 1,
        "id": "container_1795225023264_0004_01_000002",
        "node": "localhost:8041",
        "nodeHttp": "localhost:8042",
        "priority": 1,
        "resources": {
          "memory-mb": 128,
          "vcores": 1,
          "yarn.io/gpu": 0,
        },
      },
      {
        "allocationRequestId": 2,
        "id": "container_1795225023264_0004_01_000003",
        "node": "localhost:8141",
        "nodeHttp": "localhost:8142",
        "priority": 2,
        "resources": {
          "memory-mb": 128,
          "vcores": 1,
          "yarn.io/gpu": 1,
        },
      },
      {
        "allocationRequestId": 2,
        "id": "container_1795225023264_0004_01_000004",
        "node": "localhost:8041",
        "nodeHttp": "localhost:8042",
        "priority": 2,
        "resources": {
          "memory-mb": 128,
          "vcores": 1,
          "yarn.io/gpu": 1,
        },
      },
      {
        "allocationRequestId": 3,
        "id": "container_1795225023264_0004_01_000005",
        "node": "localhost:8141",
        "nodeHttp": "localhost:8142",
        "priority": 3,
        "resources": {
          "memory-mb": 256,
          "vcores": 2,
          "yarn.io/gpu": 0,
        },
      },
    ]
  `);
  expect(allocated.every(({ token }) => token.kind === 'ContainerToken')).toBe(true);
});

test('a completion without a status counts as a failed launch', () => {
  expect(completedOfMessage({ container_id: messageOfContainerId('container_1_0001_01_000002') })).toEqual({
    id: 'container_1_0001_01_000002',
    exitStatus: -1000,
    diagnostics: '',
  });
});

test.each([
  ['nm.example:8041', { host: 'nm.example', port: 8041 }],
  ['[::1]:8041', { host: '::1', port: 8041 }],
  ['::1:8041', { host: '::1', port: 8041 }],
])('parses the address of node %s', (node, endpoint) => {
  expect(endpointOfNode(node)).toEqual(endpoint);
});

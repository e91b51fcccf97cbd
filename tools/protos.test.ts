import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { MessageTypeDefinition } from '@grpc/proto-loader';
import { describe, expect, test } from 'vitest';
import { decodeMessage, encodeDelimited, splitDelimited } from '../hadoop/rpc/messages.ts';
import type { HadoopMessages } from '../protos/hadoop-messages.ts';
import { tonyDefinitions } from '../protos/services.ts';

test('the JSON descriptors and the types match the .proto files (UPDATE=1 regenerates them)', () => {
  const check = process.env.UPDATE === '1' ? [] : ['--check'];
  const tool = new URL('protos.mjs', import.meta.url).pathname;
  expect(() => execFileSync(process.execPath, [tool, ...check], { stdio: 'pipe' })).not.toThrow();
});

type Message = Readonly<Record<string, unknown>>;

const DEFINITIONS = tonyDefinitions();

/** Encodes and decodes a message. */
const TRANSFER = {
  tony: (name: string, message: Message): unknown => {
    const { serialize, deserialize } = DEFINITIONS[`tony.${name}`] as MessageTypeDefinition<object, object>;
    return deserialize(serialize(message));
  },
  hadoop: (name: string, message: Message): unknown => {
    const known = name as keyof HadoopMessages;
    return decodeMessage(known, splitDelimited(encodeDelimited(known, message as HadoopMessages[typeof known]), 0).message);
  },
};

describe.each(Object.entries(TRANSFER))('the types of protos/%s-messages.ts', (set, transfer) => {
  const isProto3 = set === 'tony';
  const [messages = new Map(), enums = new Map()] = interfacesIn(set);

  test('contain every field that a decoder returns, with its type', () => {
    for (const [name, fields] of messages) {
      for (const [field, type] of fieldsIn(fields)) {
        const sent = { ...empty(name), [field]: sample(type) };
        expect((transfer(name, sent) as Message)[field], `${name}.${field}`).toEqual(sent[field]);
      }
    }
  });

  test('mark the fields that a decoder leaves out as optional, and no others', () => {
    for (const name of messages.keys()) {
      const received = transfer(name, isProto3 ? {} : empty(name)) as Message;
      expect(received, name).toStrictEqual(empty(name));
    }
  });

  /** Returns the message without optional fields. Lists and maps are empty, and the values are those of fields that are not sent. */
  function empty(name: string): Message {
    const present = fieldsIn(messages.get(name) ?? '').filter(([, , isOptional]) => !isOptional);
    return Object.fromEntries(
      present.map(([field, type]) => {
        const zero = isProto3 && type === 'string' ? '' : ZEROS[type];
        const none = type.endsWith(' | null') ? null : /^Readonly</.test(type) ? {} : /^readonly /.test(type) ? [] : undefined;
        return [field, zero ?? (none === undefined ? sample(type) : none)];
      }),
    );
  }

  function sample(type: string): unknown {
    const item = /^readonly (.*)\[\]$/.exec(type)?.[1];
    const entry = /^Readonly<Record<string, (.*)>>$/.exec(type)?.[1];
    const [, kind, referred = ''] = /^\w+(Enums|Messages)\['(.*)'\]/.exec(type) ?? [];
    if (item !== undefined) {
      return [sample(item), sample(item)];
    }
    if (entry !== undefined) {
      return { key: sample(entry) };
    }
    return kind === 'Messages' ? empty(referred) : kind === 'Enums' ? firstName(enums.get(referred)) : SAMPLES[type];
  }
});

/** Values of fields that are not sent. */
const ZEROS: Readonly<Record<string, unknown>> = { number: 0, boolean: false, Uint8Array: Buffer.alloc(0) };
const SAMPLES: Readonly<Record<string, unknown>> = { number: 7, string: '7', boolean: true, Uint8Array: Buffer.from('7') };

test('a value that an enum does not contain arrives as a number', () => {
  expect(TRANSFER.tony('EndOfData', { channel: 9 })).toEqual({ channel: 9 });
  expect(TRANSFER.hadoop('ContainerStatusProto', { state: 9 })).toEqual({ state: 9 });
});

function firstName(union = ''): string {
  return /'(\w+)'/.exec(union)?.[1] ?? '';
}

/** Parses the generated interfaces. Returns the types in each interface, keyed by name. */
function interfacesIn(set: string): Map<string, string>[] {
  const text = readFileSync(new URL(`../protos/${set}-messages.ts`, import.meta.url), 'utf8');
  return [...text.matchAll(/^export interface \w+ \{\n(.*?)^\}/gms)].map(
    ([, body = '']) =>
      new Map(
        body
          .split(/^ {2}(?=[\w'])/m)
          .map((entry) => [/^'?([\w.]+)/.exec(entry)?.[1] ?? '', entry] as const)
          .filter(([name]) => name !== ''),
      ),
  );
}

function fieldsIn(message: string): (readonly [name: string, type: string, isOptional: boolean])[] {
  return [...message.matchAll(/readonly (\w+)(\??): (.*?)(?: \| undefined)?(?=;| \})/g)].map(([, name = '', optional, type = '']) => [
    name,
    type,
    optional === '?',
  ]);
}

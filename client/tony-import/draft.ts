import { basename } from 'node:path';
import { Document, isCollection, visit } from 'yaml';
import type { FrameworkName } from '../../conf/frameworks/names.ts';
import type { RoleKind } from '../../conf/job.ts';
import { isRecord } from '../../platform/is-record.ts';
import type { DraftOrder } from './tony-order.ts';

/** Content of job.yaml, with the keys in the order in which they are written. `yamlOf` omits undefined and empty values. */
export interface Draft {
  readonly name: string;
  readonly queue: string | undefined;
  readonly source: string | undefined;
  readonly framework: FrameworkName | undefined;
  readonly python: { readonly archive: string } | undefined;
  readonly command: string | undefined;
  readonly tags: readonly string[] | undefined;
  readonly files: Readonly<Record<string, string>>;
  readonly archives: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  readonly roles: Readonly<Record<string, DraftRole>>;
  readonly successPolicy: 'ended' | undefined;
  readonly gang: { readonly timeout: string | undefined };
  readonly heartbeat: { readonly interval: string | undefined; readonly missed: number | undefined };
  readonly tensorboard: { readonly logdir: string; readonly resources: { readonly memory: string | undefined } } | undefined;
  readonly timeout: string | undefined;
  readonly master: {
    readonly resources: { readonly memory: string | undefined; readonly vcores: number | undefined };
    readonly nodeLabel: string | undefined;
    readonly docker: DraftDocker | undefined;
    readonly startTimeout: string | undefined;
  };
}

export interface DraftDocker {
  readonly image: string;
  readonly mounts: readonly string[] | undefined;
}

export interface DraftRole extends DraftOrder {
  readonly instances: number;
  readonly resources: { readonly memory: string; readonly vcores: number; readonly gpus: number | undefined };
  readonly command: string | undefined;
  readonly files: Readonly<Record<string, string>> | undefined;
  readonly archives: Readonly<Record<string, string>> | undefined;
  readonly nodeLabel: string | undefined;
  readonly docker: DraftDocker | undefined;
  readonly kind: RoleKind | undefined;
  readonly restart: { readonly policy: 'never' } | undefined;
  readonly timeout: string | undefined;
}

const ON_ONE_LINE = new Set([
  'python',
  'resources',
  'restart',
  'after',
  'endAfter',
  'tags',
  'gang',
  'heartbeat',
  'tensorboard',
  'master',
  'docker',
]);

/** Returns a copy without empty mappings and lists. */
function withoutEmpty(value: unknown): unknown {
  if (!isRecord(value)) {
    return value;
  }
  const entries = Object.entries(value).map(([key, each]) => [key, withoutEmpty(each)] as const);
  return Object.fromEntries(entries.filter(([, each]) => typeof each !== 'object' || each === null || Object.keys(each).length > 0));
}

export function yamlOf(draft: Draft, file: string): string {
  // `JSON.stringify` removes undefined values.
  const document = new Document(withoutEmpty(JSON.parse(JSON.stringify(draft))));
  document.commentBefore = ` Converted from TonY's ${basename(file)}. tony-ts explain KEY describes a key.`;
  visit(document, {
    Pair: (_, { key, value }) => {
      if (isCollection(value) && ON_ONE_LINE.has(String(key))) {
        value.flow = true;
      }
    },
  });
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

import { APPLICATION_KEYS, type Carrying, ORDER_KEYS, OTHER_KEYS, ROLE_KEYS } from '../client/tony-import/tony-keys.ts';

/** Example values of keys whose description depends on the value. */
const USUAL: Readonly<Record<string, string>> = {
  'tony.application.fail-on-worker-failure-enabled': 'false',
};

/** Generates the table of docs/moving-from-tony.md. */
export function tonyKeyTable(): string {
  const rows: [string, Carrying][] = [
    ...Object.entries(APPLICATION_KEYS).map(([key, carrying]): [string, Carrying] => [
      key,
      typeof carrying === 'function' ? carrying(USUAL[key] ?? '60000') : carrying,
    ]),
    ...Object.entries(ROLE_KEYS).map(([key, carrying]): [string, Carrying] => [
      `tony.ROLE.${key}`,
      carrying.to === null ? carrying : { ...carrying, to: `roles.ROLE.${carrying.to}` },
    ]),
    ...Object.entries(ORDER_KEYS),
    ...OTHER_KEYS.map(({ pattern, remark }): [string, Carrying] => [familyOf(pattern), { to: null, remark }]),
  ];
  return [
    '| TonY | job.yaml | |',
    '| --- | --- | --- |',
    ...rows.map(([key, { to, remark }]) => `| \`${cell(key)}\` | ${to === null ? '' : `\`${cell(to)}\``} | ${cell(remark)} |`),
  ].join('\n');
}

/** Returns the usual notation of a pattern: `tony.docker.*` for `/^tony\.docker\./`. */
function familyOf({ source }: RegExp): string {
  const plain = source
    .replace(/^\^/, '')
    .replaceAll('\\.', '.')
    .replaceAll('.*', '*')
    .replaceAll('https?', 'http, https')
    .replaceAll('|', ', ');
  return /[)]$/.test(plain) ? plain : `${plain}*`;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replace(/\s+/g, ' ');
}

import type { JsonSchema } from './values/json-schema.ts';

interface ExplainedSchema extends JsonSchema {
  readonly type?: string;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly const?: unknown;
}

export interface ExplainedKey {
  readonly key: string;
  readonly description: string;
  /** Description of the accepted values, for example `a whole number, or a mapping`. */
  readonly value: string;
  /** Default value as written in job.yaml, or null if there is none. */
  readonly default: string | null;
  readonly children: readonly { readonly key: string; readonly description: string }[];
}

/**
 * Describes a key of job.yaml or tony-site.yaml according to the JSON Schema. Any word matches a user-defined name, such as a role name.
 * @param key path of the key, such as `roles.worker.resources.memory`, or '' for the whole file
 * @returns the description, or null if the schema has no such key
 */
export function explainKey(root: JsonSchema, key: string): ExplainedKey | null {
  let schema: ExplainedSchema = root;
  for (const part of key === '' ? [] : key.split('.')) {
    const next = below(schema, part);
    if (next === null) {
      return null;
    }
    schema = next;
  }
  return {
    key,
    description: schema.description ?? '',
    value: describeValue(schema),
    default: writtenDefault(schema.default),
    children: branches(schema).flatMap(({ properties = {}, additionalProperties }) => [
      ...Object.entries(properties).map(([name, child]) => ({ key: name, description: child.description ?? '' })),
      ...(typeof additionalProperties === 'object' ? [{ key: 'NAME', description: additionalProperties.description ?? '' }] : []),
    ]),
  };
}

/** Returns null for an empty mapping, the default of a group of keys. */
function writtenDefault(value: unknown): string | null {
  const json = JSON.stringify(value);
  return value === undefined || json === '{}' ? null : typeof value === 'string' ? value : json;
}

function branches(schema: ExplainedSchema): ExplainedSchema[] {
  return [schema, ...(schema.anyOf ?? []).flatMap((branch) => branches(branch))];
}

function below(schema: ExplainedSchema, part: string): ExplainedSchema | null {
  for (const { properties, additionalProperties } of branches(schema)) {
    if (properties !== undefined && Object.hasOwn(properties, part)) {
      return properties[part] ?? null;
    }
    if (typeof additionalProperties === 'object') {
      return additionalProperties;
    }
  }
  return null;
}

function describeValue(schema: ExplainedSchema): string {
  const kinds = schema.anyOf === undefined ? [kindOf(schema)] : branches(schema).slice(1).map(kindOf);
  return [...new Set(kinds.filter((kind) => kind !== ''))].join(', or ');
}

function kindOf({ type, enum: choices, minimum, maximum, const: only, anyOf }: ExplainedSchema): string {
  if (anyOf !== undefined) {
    return '';
  }
  if (only !== undefined) {
    return JSON.stringify(only);
  }
  if (choices !== undefined) {
    return `one of ${choices.join(', ')}`;
  }
  switch (type) {
    case 'integer': {
      const least = minimum === undefined || minimum <= Number.MIN_SAFE_INTEGER ? '' : ` from ${minimum}`;
      const most = maximum === undefined || maximum >= 1_000_000 ? '' : ` to ${maximum}`;
      return `a whole number${least}${most}`;
    }
    case 'number':
      return 'a number';
    case 'boolean':
      return 'true or false';
    case 'array':
      return 'a list';
    case 'object':
      return 'a mapping';
    default:
      return 'a string';
  }
}

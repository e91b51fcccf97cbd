import { decimalKind, MICROSECONDS, MILLISECONDS, NANOSECONDS, type ScalarKind } from './value-kinds.ts';

/*
 * Avro schemas (Apache Avro specification, "Schema Declaration"): JSON, in which a string names a primitive type or a type that is defined
 * before, an array is a union, and an object defines a type. A named type may refer to itself.
 */

export type AvroType =
  | { readonly type: AvroPrimitive; readonly logical: ScalarKind | null }
  | { readonly type: 'fixed'; readonly size: number; readonly logical: ScalarKind | null }
  | { readonly type: 'enum'; readonly symbols: readonly string[] }
  | { readonly type: 'array' | 'map'; readonly items: AvroType }
  | { readonly type: 'union'; readonly branches: readonly AvroType[] }
  | AvroRecord;

export interface AvroRecord {
  readonly type: 'record';
  readonly fields: readonly AvroField[];
}

export interface AvroField {
  readonly name: string;
  readonly type: AvroType;
}

const PRIMITIVES = ['null', 'boolean', 'int', 'long', 'float', 'double', 'bytes', 'string'] as const;
type AvroPrimitive = (typeof PRIMITIVES)[number];

/** A limit on nested definitions bounds the work for each value, because each byte of a value can belong to that many records. */
const MAX_DEPTH = 100;

/**
 * Parses a schema in time proportional to its length: each named type is parsed once, and all references share it.
 * @throws Error if the schema is invalid.
 */
export function parseAvroSchema(json: string): AvroType {
  return new SchemaParser().parse(JSON.parse(json), '', 0);
}

class SchemaParser {
  readonly #named = new Map<string, AvroType>();

  parse(schema: unknown, namespace: string, depth: number): AvroType {
    if (depth > MAX_DEPTH) {
      throw new Error(`its types are nested more than ${MAX_DEPTH} levels deep`);
    }
    if (typeof schema === 'string') {
      return this.#reference(schema, namespace);
    }
    if (Array.isArray(schema)) {
      return { type: 'union', branches: schema.map((branch) => this.parse(branch, namespace, depth + 1)) };
    }
    if (typeof schema !== 'object' || schema === null) {
      throw new Error(`${JSON.stringify(schema)} is not a type`);
    }
    return this.#definition(schema as SchemaObject, namespace, depth);
  }

  #reference(name: string, namespace: string): AvroType {
    if (isPrimitive(name)) {
      return { type: name, logical: null };
    }
    const type = this.#named.get(fullName(name, namespace)) ?? this.#named.get(name);
    if (type === undefined) {
      throw new Error(`the type ${name} is not defined`);
    }
    return type;
  }

  #definition(schema: SchemaObject, namespace: string, depth: number): AvroType {
    const { type } = schema;
    switch (type) {
      case 'array':
        return { type, items: this.parse(schema.items, namespace, depth + 1) };
      case 'map':
        return { type, items: this.parse(schema.values, namespace, depth + 1) };
      case 'enum':
        return this.#define(schema, namespace, { type, symbols: listOf(schema.symbols, 'symbols').map(String) });
      case 'fixed':
        return this.#define(schema, namespace, { type, size: wholeSize(schema.size), logical: logicalKind(type, schema) });
      case 'record':
      case 'error': {
        // Its fields may refer to the record itself.
        const fields: AvroField[] = [];
        const record = this.#define(schema, namespace, { type: 'record', fields });
        const inner = spaceOf(schema, namespace);
        for (const field of listOf(schema.fields, 'fields') as SchemaObject[]) {
          fields.push({ name: textOf(field?.name, 'field'), type: this.parse(field.type, inner, depth + 1) });
        }
        return record;
      }
    }
    if (typeof type === 'string' && isPrimitive(type)) {
      return { type, logical: logicalKind(type, schema) };
    }
    return this.parse(type, namespace, depth + 1);
  }

  #define<T extends AvroType>(schema: SchemaObject, namespace: string, type: T): T {
    const name = fullName(textOf(schema.name, String(schema.type)), spaceOf(schema, namespace));
    if (this.#named.has(name)) {
      throw new Error(`the type ${name} is defined twice`);
    }
    this.#named.set(name, type);
    return type;
  }
}

/** The attributes of a definition, none of which has been checked. */
type SchemaObject = Readonly<
  Partial<
    Record<
      'type' | 'name' | 'namespace' | 'items' | 'values' | 'symbols' | 'size' | 'fields' | 'logicalType' | 'precision' | 'scale',
      unknown
    >
  >
>;

/**
 * Returns the kind of a logical type, or null for a type without one. As the specification requires, a logical type that is unknown, or
 * does not fit the type, is ignored.
 */
function logicalKind(type: string, { logicalType, scale, size }: SchemaObject): ScalarKind | null {
  switch (`${type} ${logicalType}`) {
    case 'int date':
      return 'integer';
    case 'int time-millis':
    case 'long timestamp-millis':
    case 'long local-timestamp-millis':
      return MILLISECONDS;
    case 'long time-micros':
    case 'long timestamp-micros':
    case 'long local-timestamp-micros':
      return MICROSECONDS;
    case 'long time-nanos':
    case 'long timestamp-nanos':
    case 'long local-timestamp-nanos':
      return NANOSECONDS;
    case 'bytes decimal':
    case 'fixed decimal':
      return decimalKind(scale as number | undefined);
    case 'fixed uuid':
      return size === 16 ? 'uuid' : null;
    case 'fixed duration':
      return size === 12 ? 'duration' : null;
    default:
      return null;
  }
}

function isPrimitive(name: string): name is AvroPrimitive {
  return (PRIMITIVES as readonly string[]).includes(name);
}

/** Returns the namespace of the names inside a definition. */
function spaceOf({ name, namespace }: SchemaObject, outer: string): string {
  const dot = typeof name === 'string' ? name.lastIndexOf('.') : -1;
  if (dot !== -1) {
    return (name as string).slice(0, dot);
  }
  return typeof namespace === 'string' ? namespace : outer;
}

function fullName(name: string, namespace: string): string {
  return name.includes('.') || namespace === '' ? name : `${namespace}.${name}`;
}

function listOf(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) {
    throw new Error(`a type has no ${what}`);
  }
  return value;
}

function textOf(value: unknown, what: string): string {
  if (typeof value !== 'string' || value === '') {
    throw new Error(`a ${what} has no name`);
  }
  return value;
}

function wholeSize(size: unknown): number {
  if (!Number.isSafeInteger(size) || (size as number) < 0) {
    throw new Error(`a fixed type has the size ${JSON.stringify(size)}`);
  }
  return size as number;
}

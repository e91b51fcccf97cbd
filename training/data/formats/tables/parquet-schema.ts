import type { SchemaElement } from 'hyparquet';
import { TonyError } from '../../../../platform/errors.ts';
import type { LeafColumn } from './parquet-pages.ts';
import { requireDistinct } from './table-values.ts';
import { decimalKind, MICROSECONDS, MILLISECONDS, NANOSECONDS, type ScalarKind, type ValueKind } from './value-kinds.ts';

/** A column, or a part of one. */
export interface SchemaNode {
  readonly element: SchemaElement;
  readonly children: readonly SchemaNode[];
}

const MAX_DEPTH = 64;

/**
 * Returns the columns. A footer lists the elements of the schema in depth-first order, each with its number of children.
 * @throws Error if the list is damaged, or nested too deeply.
 */
export function columnsOf(elements: readonly SchemaElement[]): readonly SchemaNode[] {
  let next = 0;
  const read = (depth: number): SchemaNode => {
    const element = elements[next++];
    const count = element?.num_children ?? 0;
    if (element === undefined || count < 0 || count > elements.length - next || depth > MAX_DEPTH) {
      throw new Error('its schema is incomplete, or nested too deeply');
    }
    return { element, children: Array.from({ length: count }, () => read(depth + 1)) };
  };
  return read(0).children;
}

/** Returns the number of physical columns, each of which has a chunk in every row group. */
export function leavesOf({ children }: SchemaNode): number {
  return children.length === 0 ? 1 : children.reduce((sum, child) => sum + leavesOf(child), 0);
}

/**
 * Returns the kind of a column's values.
 * @param where the file and the column, for error messages.
 * @throws TonyError DATA_INVALID if no element can hold the values.
 */
export function parquetKind(node: SchemaNode, where: string): ValueKind {
  const kind = node.children.length === 0 ? leafKind(node.element, where) : groupKind(node, where);
  // A repeated field without the LIST annotation is a list whose items are required.
  return node.element.repetition_type === 'REPEATED' ? { list: kind } : kind;
}

function annotationOf({ logical_type, converted_type }: SchemaElement): string | undefined {
  return logical_type?.type ?? converted_type;
}

function groupKind(node: SchemaNode, where: string): ValueKind {
  const { element, children } = node;
  const item = listItem(node);
  if (item !== null) {
    return { list: parquetKind(item, where) };
  }
  const annotation = annotationOf(element);
  if (annotation !== undefined) {
    throw unsupported(where, annotation);
  }
  const fields = children.map((child) => ({ name: child.element.name, node: child }));
  requireDistinct(fields, `${where} has two fields called`);
  return { fields: fields.map(({ name, node: child }) => ({ name, kind: parquetKind(child, `${where}.${name}`) })) };
}

/** Returns the items of a list, or null if the group is not a list. */
function listItem({ element, children }: SchemaNode): SchemaNode | null {
  const [repeated] = children;
  if (annotationOf(element) !== 'LIST' || repeated === undefined) {
    return null;
  }
  const [item, ...others] = repeated.children;
  if (item !== undefined && others.length === 0) {
    return item;
  }
  // In the old two-level form of lists, the repeated field is the item itself.
  return { ...repeated, element: { ...repeated.element, repetition_type: 'REQUIRED' } };
}

const UNSIGNED: Readonly<Record<string, ScalarKind>> = { UINT_8: 'uint32', UINT_16: 'uint32', UINT_32: 'uint32', UINT_64: 'uint64' };

const UNITS = { MILLIS: MILLISECONDS, MICROS: MICROSECONDS, NANOS: NANOSECONDS } as const;

function leafKind(element: SchemaElement, where: string): ScalarKind {
  const { type, type_length, logical_type: logical, converted_type: converted } = element;
  const annotation = annotationOf(element);
  const kind = ((): ScalarKind | null | undefined => {
    switch (annotation) {
      case undefined:
        return undefined;
      case 'NULL':
        return 'null';
      case 'STRING':
      case 'UTF8':
      case 'ENUM':
      case 'JSON':
        return 'text';
      case 'UUID':
        return type_length === 16 ? 'uuid' : null;
      case 'DECIMAL':
        return decimalKind(element.scale ?? (logical?.type === 'DECIMAL' ? logical.scale : undefined));
      case 'TIMESTAMP':
      case 'TIME':
        return UNITS[(logical as { unit: keyof typeof UNITS }).unit] ?? null;
      case 'TIME_MILLIS':
      case 'TIMESTAMP_MILLIS':
        return MILLISECONDS;
      case 'TIME_MICROS':
      case 'TIMESTAMP_MICROS':
        return MICROSECONDS;
      case 'FLOAT16':
        return type_length === 2 ? 'float16' : null;
      case 'INTERVAL':
        return type_length === 12 ? 'duration' : null;
      case 'DATE':
        return 'integer';
      case 'INTEGER':
        if (logical?.type === 'INTEGER' && !logical.isSigned) {
          return logical.bitWidth === 64 ? 'uint64' : 'uint32';
        }
        return 'integer';
      default:
        return /^INT_\d+$/.test(converted ?? '') ? 'integer' : (UNSIGNED[converted ?? ''] ?? null);
    }
  })();
  if (kind === null) {
    throw unsupported(where, String(annotation));
  }
  return kind ?? physicalKind(type, where);
}

function physicalKind(type: SchemaElement['type'], where: string): ScalarKind {
  switch (type) {
    case 'BOOLEAN':
      return 'boolean';
    case 'INT32':
    case 'INT64':
      return 'integer';
    case 'FLOAT':
      return 'float';
    case 'DOUBLE':
      return 'double';
    case 'INT96':
      // hyparquet converts the day and the time of day to nanoseconds since 1970.
      return NANOSECONDS;
    case 'BYTE_ARRAY':
    case 'FIXED_LEN_BYTE_ARRAY':
      return 'bytes';
    default:
      throw unsupported(where, String(type));
  }
}

function unsupported(where: string, type: string): TonyError {
  return new TonyError('DATA_INVALID', `${where} has the type ${type}, which has no equivalent in a dataset`, {
    hint: 'Name the columns to read: `columns: [...]`.',
  });
}

/** A physical column, as hyparquet and the page checks need it. */
export interface Leaf extends Pick<LeafColumn, 'type' | 'typeLength' | 'maxDefinitionLevel' | 'maxRepetitionLevel' | 'isFlat'> {
  readonly path: readonly string[];
}

export interface StoredColumn {
  readonly schema: readonly SchemaElement[];
  readonly leaves: readonly Leaf[];
}

/**
 * Returns a schema with which hyparquet reads the stored values of one column. It lacks logical types, because value-kinds.ts converts the
 * values. An exception is text, which hyparquet decodes once for each entry of a dictionary. Names are replaced by numbers, so that structs
 * become array-like, and any names are possible.
 */
export function storedColumn(column: SchemaNode): StoredColumn {
  const schema: SchemaElement[] = [{ name: 'root', num_children: 1 }];
  const leaves: Leaf[] = [];
  const add = (node: SchemaNode, path: readonly string[], definition: number, repetition: number): void => {
    const { element, children } = node;
    const { type, type_length, repetition_type } = element;
    const definitionLevel = definition + (repetition_type === 'REQUIRED' ? 0 : 1);
    const repetitionLevel = repetition + (repetition_type === 'REPEATED' ? 1 : 0);
    const base = { name: path.at(-1) ?? '', ...(repetition_type === undefined ? {} : { repetition_type }) };
    if (children.length === 0) {
      const text = type === 'BYTE_ARRAY' && TEXTS.includes(annotationOf(element) ?? '');
      schema.push({
        ...base,
        ...(type && { type }),
        ...(type_length === undefined ? {} : { type_length }),
        ...(text && { converted_type: 'UTF8' }),
      });
      const levels = { maxDefinitionLevel: definitionLevel, maxRepetitionLevel: repetitionLevel };
      leaves.push({ path, type, typeLength: type_length, ...levels, isFlat: path.length === 1 && repetition_type !== 'REPEATED' });
      return;
    }
    const list = annotationOf(element) === 'LIST';
    schema.push({ ...base, num_children: children.length, ...(list && { converted_type: 'LIST' }) });
    for (const [index, child] of children.entries()) {
      add(list ? withItem(child) : child, [...path, String(index)], definitionLevel, repetitionLevel);
    }
  };
  add(column, ['0'], 0, 0);
  return { schema, leaves };
}

const TEXTS = ['STRING', 'UTF8', 'ENUM', 'JSON'];

/** hyparquet knows only lists whose repeated group has one child. A required group around several children does not change the levels. */
function withItem(repeated: SchemaNode): SchemaNode {
  if (repeated.children.length < 2) {
    return repeated;
  }
  const item: SchemaNode = { element: { name: 'item', repetition_type: 'REQUIRED' }, children: repeated.children };
  return { ...repeated, children: [item] };
}

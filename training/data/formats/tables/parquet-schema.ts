import type { SchemaElement, SchemaTree } from 'hyparquet';
import { TonyError } from '../../../../platform/errors.ts';
import type { ValueKind } from './table-values.ts';

/**
 * Returns the kind of a column's values. `PARSERS` in parquet-format.ts defines how dates and timestamps become numbers.
 * @param where the file and the column, for error messages.
 * @throws TonyError DATA_INVALID if no tensor can hold the values.
 */
export function parquetKind(tree: SchemaTree, where: string): ValueKind {
  const kind = tree.children.length === 0 ? leafKind(tree.element, where) : groupKind(tree, where);
  // A repeated field without the LIST annotation is a list whose items are required.
  return tree.element.repetition_type === 'REPEATED' ? { list: kind } : kind;
}

function groupKind({ element, children }: SchemaTree, where: string): ValueKind {
  const type = element.logical_type?.type ?? element.converted_type;
  if (type === 'LIST') {
    const [repeated] = children;
    const [item, ...others] = repeated?.children ?? [];
    if (repeated !== undefined && (item === undefined || others.length > 0)) {
      // In the old two-level list form, the repeated field is the item itself.
      return { list: parquetKind({ ...repeated, element: { ...repeated.element, repetition_type: 'REQUIRED' } }, where) };
    }
    if (item !== undefined) {
      return { list: parquetKind(item, where) };
    }
  }
  if (type !== undefined) {
    throw unsupported(where, type);
  }
  return {
    fields: Object.fromEntries(children.map((child) => [child.element.name, parquetKind(child, `${where}.${child.element.name}`)])),
  };
}

function leafKind({ type, logical_type, converted_type }: SchemaElement, where: string): ValueKind {
  const annotation = logical_type?.type ?? converted_type;
  switch (annotation) {
    case 'STRING':
    case 'UTF8':
    case 'ENUM':
    case 'JSON':
    case 'UUID':
      return 'text';
    case 'DECIMAL':
    case 'TIMESTAMP':
    case 'TIMESTAMP_MILLIS':
    case 'TIMESTAMP_MICROS':
      return 'double';
    case 'FLOAT16':
      return 'float';
    case 'DATE':
    case 'TIME':
    case 'TIME_MILLIS':
    case 'TIME_MICROS':
    case 'INTEGER':
      return 'integer';
    case undefined:
      break;
    default:
      if (!/^U?INT_\d+$/.test(annotation)) {
        throw unsupported(where, annotation);
      }
  }
  switch (type) {
    case 'BOOLEAN':
      return 'boolean';
    case 'INT32':
    case 'INT64':
      return 'integer';
    case 'FLOAT':
      return 'float';
    case 'DOUBLE':
    case 'INT96':
      return 'double';
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

import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { readIfExists } from '../../platform/files/read-if-exists.ts';
import { parseWithIncludes, type XmlInclude, type XmlProperty } from './hadoop-xml.ts';

/** Maximum nesting depth of included files. */
const MAXIMUM_DEPTH = 8;

/**
 * Reads a configuration file and the files that it includes.
 *
 * @returns null if the file does not exist
 * @throws TonyError HADOOP_CONF_INVALID
 */
export async function readHadoopXml(file: string, depth = 0): Promise<XmlProperty[] | null> {
  const text = await readIfExists(file).catch((error: unknown) => {
    throw new TonyError('HADOOP_CONF_INVALID', `Cannot read ${file}: ${fileErrorOf(error)}`, { cause: error });
  });
  if (text === null) {
    return null;
  }
  const properties: XmlProperty[] = [];
  for (const part of parseWithIncludes(text, file)) {
    properties.push(...('include' in part ? await included(part, file, depth) : [part]));
  }
  return properties;
}

async function included({ include, optional, line }: XmlInclude, file: string, depth: number): Promise<XmlProperty[]> {
  const fail = (problem: string): never => {
    throw new TonyError('HADOOP_CONF_INVALID', `${file}:${line}: ${problem}`);
  };
  const isUrl = /^[a-z][a-z0-9+.-]+:/i.test(include);
  if (isUrl && !/^file:\/(\/\/)?[^/]/.test(include)) {
    return fail(`includes ${include}: only local files can be included`);
  }
  if (depth === MAXIMUM_DEPTH) {
    return fail(`includes ${include}: includes are nested more than ${MAXIMUM_DEPTH} levels deep`);
  }
  const path = isUrl ? fileURLToPath(include) : resolve(dirname(file), include);
  return (await readHadoopXml(path, depth + 1)) ?? (optional ? [] : fail(`includes ${path}, which does not exist`));
}

import { access, constants } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { keytabOf } from '../../conf/resolve/site.ts';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { findSiteFile } from './site-file.ts';

/**
 * If the local site file names a keytab, adds the environment variables that select the keytab. A keytab or delegation tokens that are
 * already in the environment take precedence.
 * @param folders folders to search for the site file, in this order
 * @throws TonyError SITE_UNREADABLE, SITE_INVALID, KERBEROS_NO_TICKET
 */
export async function withSiteKeytab(environment: NodeJS.ProcessEnv, folders: readonly string[]): Promise<NodeJS.ProcessEnv> {
  if (environment.TONY_KEYTAB || environment.HADOOP_TOKEN_FILE_LOCATION) {
    return environment;
  }
  const found = await findSiteFile(folders);
  const named = found === null ? null : keytabOf(found.text, found.file);
  if (found === null || named === null) {
    return environment;
  }
  const keytab = resolve(dirname(found.file), named.keytab);
  await access(keytab, constants.R_OK).catch((error: unknown) => {
    throw new TonyError('KERBEROS_NO_TICKET', `The keytab ${keytab}, named in ${found.file}, cannot be read: ${fileErrorOf(error)}.`, {
      hint: 'Correct kerberos.keytab in the site file. If only some users may read the keytab, name it in a separate site file in their TONY_CONF_DIR.',
      cause: error,
    });
  });
  return { ...environment, TONY_PRINCIPAL: named.principal, TONY_KEYTAB: keytab };
}

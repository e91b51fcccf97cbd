import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { KerberosKeytab } from '../../conf/job.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { ticketSource } from '../../hadoop/configuration/login/keytab-tokens.ts';
import { shortUserName } from '../../hadoop/configuration/login/login-of.ts';
import { findTicket, type Ticket } from '../../hadoop/security/tickets.ts';
import { fileErrorOf, messageOf, TonyError } from '../../platform/errors.ts';
import { Secret } from '../../platform/secret.ts';

/** The keytab that a job ships to its ApplicationMaster. */
export interface JobKeytab {
  readonly principal: string;
  readonly content: Secret;
  /** Whether other users on this machine can read the file. */
  readonly isExposed: boolean;
}

const MAXIMUM_BYTES = 1024 * 1024;
/** First byte of a keytab in MIT Kerberos format. The second byte is the version. */
const MAGIC = 0x05;

/**
 * Reads a job's keytab, and checks that its keys are valid and belong to the user who submits the job. Without this check, the job could
 * run for days before it fails.
 * @returns the keytab, or null if the job does not name one or the cluster does not use Kerberos
 * @throws TonyError KEYTAB_INVALID, KERBEROS_*
 */
export async function readJobKeytab(
  keytab: KerberosKeytab | null,
  {
    configuration,
    user,
    environment,
  }: { readonly configuration: HadoopConfiguration; readonly user: string; readonly environment: NodeJS.ProcessEnv },
): Promise<JobKeytab | null> {
  if (keytab === null || !configuration.secure) {
    return null;
  }
  const file = await readKeytab(keytab.keytab);
  const principal = keytab.principal ?? (await findTicket(environment)).principal;
  const owner = await shortUserName(principal, configuration, environment, principal);
  if (owner !== user) {
    throw new TonyError(
      'KEYTAB_INVALID',
      `The keytab is for ${principal}, which the cluster maps to user ${owner}, but ${user} submits the job.`,
      {
        hint: `Set kerberos.principal to a principal of ${user}, and kerberos.keytab to its keytab.`,
      },
    );
  }
  // If the configured principal contains _HOST, the ticket's principal contains this machine's name.
  const ticket = await tryKeytab(principal, keytab.keytab, environment);
  return { principal: ticket.principal, ...file };
}

/** Returns the reason why a job's keytab cannot be used on a cluster with Kerberos, or null if none is apparent. */
export async function keytabProblem(keytab: KerberosKeytab | null): Promise<string | null> {
  return keytab === null
    ? null
    : await readKeytab(keytab.keytab).then(
        () => null,
        (error: unknown) => messageOf(error),
      );
}

async function readKeytab(file: string): Promise<Pick<JobKeytab, 'content' | 'isExposed'>> {
  const handle = await open(file).catch((error: unknown) => {
    throw new TonyError('KEYTAB_INVALID', `The keytab ${file} cannot be read: ${fileErrorOf(error)}.`, { cause: error });
  });
  try {
    const { mode, size } = await handle.stat();
    if (size > MAXIMUM_BYTES) {
      throw new TonyError('KEYTAB_INVALID', `The keytab ${file} has ${size} bytes, but the limit is ${MAXIMUM_BYTES} bytes.`);
    }
    const content = await handle.readFile();
    if (content[0] !== MAGIC) {
      throw new TonyError('KEYTAB_INVALID', `The file ${file} is not a keytab.`);
    }
    return { content: new Secret(content), isExposed: (mode & 0o077) !== 0 };
  } finally {
    await handle.close();
  }
}

/** Obtains a ticket with the keytab, and stores it in a temporary cache. */
async function tryKeytab(principal: string, file: string, environment: NodeJS.ProcessEnv): Promise<Ticket> {
  const cacheFolder = await mkdtemp(path.join(tmpdir(), 'tony-ts-keytab-'));
  try {
    return await findTicket(ticketSource({ principal, file, cacheFolder }, environment));
  } finally {
    await rm(cacheFolder, { recursive: true, force: true });
  }
}

import type { FrozenJob } from '../../conf/job.ts';
import { withTimeout } from '../../platform/async/deadline.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';

export interface MasterAddress {
  readonly host: string;
  readonly port: number;
  readonly attempt: number;
}

const DEADLINE_MS = 5_000;

/** Reads the address that the newest ApplicationMaster attempt has stored. Returns null if the address cannot be read. */
export async function findMaster(frozen: FrozenJob, log: Logger): Promise<MasterAddress | null> {
  try {
    return await withTimeout(readAddress(frozen), DEADLINE_MS, () => null);
  } catch (error) {
    log.debug({ error: messageOf(error) }, "could not read the ApplicationMaster's address");
    return null;
  }
}

async function readAddress(frozen: FrozenJob): Promise<MasterAddress | null> {
  // Load the storage code on demand to save memory, because most executors never access storage.
  const [{ createStorage }, { joinUri }, { HadoopConfiguration }] = await Promise.all([
    import('../../storage/create-storage.ts'),
    import('../../storage/uri.ts'),
    import('../../hadoop/configuration/configuration.ts'),
  ]);
  const hadoop = frozen.cluster.kind === 'yarn' ? HadoopConfiguration.fromProperties(frozen.cluster.hadoop) : null;
  const storage = createStorage({ hadoop, user: frozen.user, maxWaitMs: DEADLINE_MS });
  try {
    return parseMasterAddress((await storage.read(joinUri(frozen.staging, 'am.json'))).toString('utf8'));
  } finally {
    storage.close();
  }
}

export function parseMasterAddress(text: string): MasterAddress | null {
  const { host, port, attempt } = JSON.parse(text) as Readonly<Record<string, unknown>>;
  return typeof host === 'string' && Number.isInteger(port) && Number.isInteger(attempt)
    ? { host, port: port as number, attempt: attempt as number }
    : null;
}

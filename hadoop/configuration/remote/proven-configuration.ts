import { randomBytes } from 'node:crypto';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import type { Token } from '../../rpc/credentials.ts';
import { IpcConnection } from '../../rpc/ipc.ts';
import type { Login } from '../../security/login.ts';
import { trustOf } from '../authorities.ts';
import type { HadoopConfiguration } from '../configuration.ts';
import { completed } from './node-configuration.ts';
import { propertiesOfDaemon, reachedAt, withoutDefaults } from './remote-configuration.ts';

const PROTOCOL = { name: 'org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB', version: 1 };

export interface ProvenOptions {
  /** The configuration from job.json. The user may have edited it. */
  readonly own: HadoopConfiguration;
  readonly otherwise: Readonly<Record<string, string>>;
  /** This attempt's YARN_AM_RM_TOKEN, issued by the ResourceManager. */
  readonly token: Token;
  readonly login: (resourceManager: string) => Login;
  readonly timeoutMs: number;
}

/**
 * Reads the configuration of the ResourceManager that runs this application. ApplicationMasters call this function if the local NodeManager
 * requires a login to read its configuration.
 *
 * The ResourceManager's address comes from job.json, which the user may have edited. The server at this address must therefore prove over
 * Hadoop RPC that it knows the attempt token's password. Only the ResourceManager knows this password. After this proof, the function reads
 * the configuration from the web server on the same host.
 * @throws TonyError RM_UNREACHABLE if no ResourceManager proves its identity and returns its configuration
 */
export async function provenConfiguration({ own, otherwise, token, login, timeoutMs }: ProvenOptions): Promise<HadoopConfiguration> {
  let failure = 'no address is known';
  for (const [index, endpoint] of own.schedulers.entries()) {
    const connection = new IpcConnection({
      endpoint,
      protocol: PROTOCOL,
      caller: { token, minimumQop: own.minimumQop },
      clientId: randomBytes(16),
      connectTimeoutMs: timeoutMs,
    });
    try {
      await connection.opened();
      const web = webServerOf(index, endpoint.host, own);
      const properties = withoutDefaults(await propertiesOfDaemon(new URL(web), { timeoutMs, login: login(web), trust: trustOf(own) }));
      return completed(reachedAt(new URL(web), properties), otherwise);
    } catch (error) {
      failure = `${endpoint.host}:${endpoint.port}: ${messageOf(error)}`;
    } finally {
      connection.close();
    }
  }
  throw new TonyError(
    'RM_UNREACHABLE',
    `No ResourceManager returned its configuration to this ApplicationMaster. The last attempt failed: ${failure}`,
  );
}

/**
 * Returns the address of the ResourceManager web server on the given host. If there are several, prefers the one at the same position in
 * the HA list.
 */
function webServerOf(index: number, host: string, { resourceManagers }: HadoopConfiguration): string {
  const onHost = (address: string | undefined): boolean =>
    address !== undefined && new URL(address).hostname.toLowerCase() === host.toLowerCase();
  const found = onHost(resourceManagers[index]) ? resourceManagers[index] : resourceManagers.find(onHost);
  if (found === undefined) {
    throw new Error("the job's configuration does not name a ResourceManager web server on this host");
  }
  return found;
}

import { randomBytes } from 'node:crypto';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Token } from '../rpc/credentials.ts';
import { IpcConnection } from '../rpc/ipc.ts';
import type { Login } from '../security/login.ts';
import { trustOf } from './authorities.ts';
import type { HadoopConfiguration } from './configuration.ts';
import { completed } from './node-configuration.ts';
import { propertiesOfDaemon, reachedAt, withoutDefaults } from './remote-configuration.ts';

const PROTOCOL = { name: 'org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB', version: 1 };

export interface ProvenOptions {
  /** The job's own configuration, which its user may have edited. */
  readonly own: HadoopConfiguration;
  /** Its properties. */
  readonly otherwise: Readonly<Record<string, string>>;
  /** The token that the ResourceManager made for this attempt (YARN_AM_RM_TOKEN). */
  readonly token: Token;
  readonly login: (resourceManager: string) => Login;
  readonly timeoutMs: number;
}

/**
 * Returns the configuration of the ResourceManager that runs this application, for a node that requires a
 * ticket of everyone who reads its own.
 *
 * The job's configuration names the ResourceManager, and its user may have edited it. The exchange over Hadoop RPC therefore comes first: in
 * it, the server proves that it knows the password of the attempt's token, which only the ResourceManager does. The web server that is asked
 * for the configuration must be on the same host.
 *
 * @throws TonyError RM_UNREACHABLE when no ResourceManager proves itself and shows its configuration
 */
export async function provenConfiguration({ own, otherwise, token, login, timeoutMs }: ProvenOptions): Promise<HadoopConfiguration> {
  let failure = 'no address is known';
  for (const endpoint of own.schedulers) {
    const connection = new IpcConnection({
      endpoint,
      protocol: PROTOCOL,
      caller: { token, minimumQop: own.minimumQop },
      clientId: randomBytes(16),
      connectTimeoutMs: timeoutMs,
    });
    try {
      await connection.opened();
      const web = webServerOn(endpoint.host, own);
      const properties = withoutDefaults(await propertiesOfDaemon(new URL(web), { timeoutMs, login: login(web), trust: trustOf(own) }));
      return completed(reachedAt(new URL(web), properties), otherwise);
    } catch (error) {
      failure = `${endpoint.host}:${endpoint.port}: ${messageOf(error)}`;
    } finally {
      connection.close();
    }
  }
  throw new TonyError('RM_UNREACHABLE', `No ResourceManager shows its configuration to this ApplicationMaster. Last try at ${failure}`);
}

function webServerOn(host: string, { resourceManagers }: HadoopConfiguration): string {
  const found = resourceManagers.find((address) => new URL(address).hostname.toLowerCase() === host.toLowerCase());
  if (found === undefined) {
    throw new Error("the job's configuration names no web server of the ResourceManager on this host");
  }
  return found;
}

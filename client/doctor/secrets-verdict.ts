import { isIP } from 'node:net';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { type CheckResult, doubtful, good } from './diagnosis.ts';

/**
 * Checks whether the job secret is encrypted when it crosses the network. A job's processes use this secret to authenticate each other.
 * Clients send the secret to the ResourceManager over REST, and containers receive the secret over Hadoop RPC.
 */
export function secretsVerdict(configuration: Pick<HadoopConfiguration, 'resourceManagers' | 'minimumQop'>): CheckResult {
  const addresses = configuration.resourceManagers.map((address) => new URL(address));
  if (addresses.every(({ hostname }) => isLoopback(hostname))) {
    return good('not sent over a network, because the ResourceManager runs on this machine');
  }
  const clear = [
    ...(addresses.some(({ protocol }) => protocol === 'http:') ? ['over HTTP at submission'] : []),
    ...(configuration.minimumQop === 'auth-conf' ? [] : ['over Hadoop RPC when containers start']),
  ];
  if (clear.length === 0) {
    return good('encrypted by HTTPS and by hadoop.rpc.protection: privacy');
  }
  return doubtful(
    `the job secret crosses the network in clear text, ${clear.join(' and ')}: anyone who reads the secret can join the job`,
    'On a network that you do not trust, set yarn.http.policy to HTTPS_ONLY and hadoop.rpc.protection to privacy, for daemons and clients.',
  );
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'));
}

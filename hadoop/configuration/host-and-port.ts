import { TonyError } from '../../platform/errors.ts';

/**
 * Splits `host:port`. A missing port is replaced with `defaultPort`.
 * @param key property name for the error message
 * @throws TonyError HADOOP_CONF_INVALID
 */
export function hostAndPort(address: string, defaultPort: number, key: string): { host: string; port: number } {
  const match = /^(\[[0-9a-fA-F:]+\]|[^:/\s[\]]+)(?::(\d{1,5}))?$/.exec(address);
  const port = match?.[2] === undefined ? defaultPort : Number(match[2]);
  if (match?.[1] === undefined || port < 1 || port > 65_535) {
    throw new TonyError('HADOOP_CONF_INVALID', `${key} is "${address}", but must have the form host:port.`);
  }
  return { host: match[1], port };
}

export function sameAddress(a: { host: string; port: number }, b: { host: string; port: number }): boolean {
  return a.host.toLowerCase() === b.host.toLowerCase() && a.port === b.port;
}

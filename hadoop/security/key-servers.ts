import { withoutEnd } from '../../platform/text/without-end.ts';
/** A cluster's key servers (KMS). They all have the same keys. */
export interface KeyServers {
  /** The URI in Hadoop's configuration, e.g. `kms://http@host1;host2:9600/kms`. The servers' tokens use this URI as their service. */
  readonly service: string;
  /** Base URLs: `http://host1:9600/kms`. */
  readonly addresses: readonly string[];
}

const DEFAULT_PORT = 9600;

/**
 * Parses a `kms://` URI in the format of org.apache.hadoop.crypto.key.kms.KMSClientProvider. The user part of the URI contains the scheme.
 * The hosts are separated by `;` and share one port. Returns null for other key providers, such as `jceks://`, because they need no token.
 */
export function parseKeyServers(uri: string): KeyServers | null {
  const [, scheme, hosts = '', port, path = ''] =
    /^kms:\/\/(https?)@([^/:@#?]+|\[[\da-fA-F:.]+\])(?::(\d{1,5}))?(\/[^#?]*)?(?:#.*)?$/.exec(uri) ?? [];
  const names = hosts.split(';').filter((host) => host !== '');
  if (scheme === undefined || names.length === 0) {
    return null;
  }
  const base = withoutEnd(path, '/');
  return {
    // When Hadoop's clients look for a token, they ignore the URI's fragment.
    service: uri.split('#', 1)[0] ?? '',
    addresses: names.map((host) => `${scheme}://${host}:${port ?? DEFAULT_PORT}${base}`),
  };
}

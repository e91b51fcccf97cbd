/** The key servers (KMS) of a cluster. All of them store the same keys. */
export interface KeyServers {
  /** The URI in Hadoop's configuration, which is also the service of their tokens: `kms://http@host1;host2:9600/kms`. */
  readonly service: string;
  /** Base URLs: `http://host1:9600/kms`. */
  readonly addresses: readonly string[];
}

const DEFAULT_PORT = 9600;

/**
 * Parses a `kms://` URI (org.apache.hadoop.crypto.key.kms.KMSClientProvider): the user part is the scheme, and `;` separates hosts that
 * share one port. Returns null for other key providers, such as `jceks://`, which need no token.
 */
export function parseKeyServers(uri: string): KeyServers | null {
  const [, scheme, hosts = '', port, path = ''] =
    /^kms:\/\/(https?)@([^/:@#?]+|\[[\da-fA-F:.]+\])(?::(\d{1,5}))?(\/[^#?]*)?(?:#.*)?$/.exec(uri) ?? [];
  const names = hosts.split(';').filter((host) => host !== '');
  if (scheme === undefined || names.length === 0) {
    return null;
  }
  const base = path.replace(/\/+$/, '');
  return {
    // Hadoop's clients omit the fragment when they look for the token.
    service: uri.replace(/#.*$/, ''),
    addresses: names.map((host) => `${scheme}://${host}:${port ?? DEFAULT_PORT}${base}`),
  };
}

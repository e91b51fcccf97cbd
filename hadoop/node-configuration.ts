import { HadoopConfiguration } from './configuration.ts';
import { propertiesOfDaemon } from './remote-configuration.ts';

/** A NodeManager's web server, as NM_HOST and NM_HTTP_PORT tell it to its containers. */
export interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** What a node may be silent about, since it needs it for nothing itself. */
const PARTS = [/^dfs\./, /^yarn\.resourcemanager\.(hostname|webapp|ha)\b/];

/**
 * The configuration by which the NodeManager of this very host finds its cluster: no user of the cluster has written it. Where its NameNodes or
 * ResourceManagers are it may leave unsaid; that is taken from `otherwise`.
 *
 * @returns null when its web server does not say it to everybody, or not in time.
 */
export async function configurationOfNode(
  { host, port }: NodeAddress,
  otherwise: Readonly<Record<string, string>>,
  timeoutMs: number,
): Promise<HadoopConfiguration | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, null);
  });
  try {
    const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`;
    const own = await Promise.race([ownProperties(authority, timeoutMs), late]);
    if (own?.['fs.defaultFS'] === undefined) return null;
    const unsaid = PARTS.filter((part) => !Object.keys(own).some((key) => part.test(key)));
    const filled = Object.entries(otherwise).filter(([key]) => unsaid.some((part) => part.test(key)));
    return HadoopConfiguration.fromProperties({ ...Object.fromEntries(filled), ...own });
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}

/** Which of the two it speaks only configurations say, and the one at hand may be anybody's. */
async function ownProperties(authority: string, timeoutMs: number): Promise<Record<string, string>> {
  const all = await propertiesOfDaemon(new URL(`http://${authority}`), { timeoutMs }).catch(() =>
    propertiesOfDaemon(new URL(`https://${authority}`), { timeoutMs, anyCertificate: true }),
  );
  // Defaults of a NodeManager differ from those of an ApplicationMaster: `HadoopConfiguration` has the ones that are used.
  return Object.fromEntries(all.filter(({ source }) => source?.endsWith('-default.xml') !== true).map(({ name, value }) => [name, value]));
}

import { parse } from 'yaml';
import * as z from 'zod';
import { isRecord } from '../../platform/is-record.ts';
import { suggest } from '../../platform/text/suggest.ts';
import { withoutEnd } from '../../platform/text/without-end.ts';
import { apiVersion, withUserKeys } from '../api-version.ts';
import { defaultsSchema, finalSchema, type JobPart, whyNotInSite } from '../job-part.ts';
import { isTextKey } from '../job-values.ts';
import { limitProblemAt, type Quotas, quotaSchema } from '../quota-schema.ts';
import type { JsonSchema } from '../values/json-schema.ts';
import { resourceProblemAt } from '../values/resource-key.ts';
import { duration, text } from '../values/value-schemas.ts';
import type { YamlPath } from '../yaml-document.ts';
import { removeKey, YamlFile, type YamlProblem } from '../yaml-file.ts';

export interface SiteConfig {
  /** Path or URI of the site file, or null if there is none. */
  readonly from: string | null;
  readonly history: {
    /**
     * Folder for all users' histories, as a URI on HDFS or a path on the default file system. If null, each user's histories are in the
     * user's home folder.
     */
    readonly dir: string | null;
    /** URL of the history server without a trailing slash, or null if there is none. */
    readonly url: string | null;
    /** Age in ms after which `tony-ts history prune` removes a history. */
    readonly keepMs: number;
  };
  readonly cache: {
    /**
     * Age in ms after which submissions and `tony-ts cache prune` remove unused cache entries. If null, submissions do not remove any
     * entries.
     */
    readonly maxAgeMs: number | null;
  };
  readonly tls: {
    /** PEM file with the cluster's certificate authorities. See `resolvePath`. */
    readonly ca: string | null;
  };
  readonly storage: {
    /** Address of HttpFS or Knox for the default file system, or addresses keyed by nameservice or `host:port`. Null if there is none. */
    readonly gateway: StorageGateway | null;
    /** File that contains `USER:PASSWORD` for the gateway. See `resolvePath`. */
    readonly credentials: string | null;
  };
  /** Keytab for clients. If null, clients use their ticket caches. */
  readonly kerberos: SiteKeytab | null;
  readonly quotas: Quotas;
  readonly defaults: Readonly<Record<string, unknown>>;
  readonly final: JobPart;
  /**
   * One text for each key that this version of tony-ts does not know and has ignored. A newer version may have written the file: the
   * ApplicationMasters and clients of older versions still work.
   */
  readonly unknownKeys: readonly string[];
}

export type StorageGateway = string | Readonly<Record<string, string>>;

export interface SiteKeytab {
  readonly principal: string;
  /** Path of the keytab. See `resolvePath`. */
  readonly keytab: string;
}

export const SITE_FILE = 'tony-site.yaml';

const DAY_MS = 86_400_000;

/** The sections in which an unknown key is a mistake. */
const LIMITING: readonly string[] = ['quotas', 'final'];

const siteSchema = z.strictObject({
  apiVersion,
  history: z
    .strictObject({
      dir: text()
        .regex(/^((hdfs|s?webhdfs|viewfs):\/\/[^/]*)?\/(?!$)(?!.*(^|\/)\.\.?(\/|$))/, {
          error: 'expected a folder on HDFS, such as hdfs:///tony/history, without . and ..',
        })
        .describe(
          "Folder on HDFS for the histories of all users, with one subfolder per user. Create it once, with mode 1777. The folder's group may read all histories. By default, histories are in each user's home folder.",
        )
        .optional(),
      url: text()
        .refine(isHttpAddress, {
          error: 'expected the address of the history server, such as https://history.example.com:8443, without user, query or #',
        })
        .describe(
          'URL of a history server (`tony-ts history serve`) for all users. The tracking URL of an ended job points to this server.',
        )
        .optional(),
      keep: duration('How long `tony-ts history prune` keeps the histories of ended jobs.', { min: 60_000 }).default(90 * DAY_MS),
    })
    .describe('Where and for how long tony-ts keeps job histories.')
    .prefault({}),
  cache: z
    .strictObject({
      maxAge: duration(
        "How long tony-ts keeps entries of the cache on HDFS after their last use. About once a day, a submission removes the user's older entries. `tony-ts cache prune` uses the same time by default. If this key is not set, submissions remove nothing.",
        { min: DAY_MS, why: 'submissions within this time reuse the entries' },
      ).optional(),
    })
    .describe("The cache of uploaded files in each user's home folder.")
    .prefault({}),
  tls: z
    .strictObject({
      ca: text()
        .describe(
          "PEM file with the cluster's own certificate authorities, in addition to the truststore in ssl-client.xml. Relative paths are resolved against the folder that contains the site file; ~/ is the user's home folder. Ignored in a site file on HDFS, because tony-ts needs the certificate authorities before it can read files from HDFS.",
        )
        .optional(),
    })
    .describe("Trust settings for the cluster's HTTPS servers.")
    .prefault({}),
  storage: z
    .strictObject({
      gateway: z
        .union([gatewayAddress(), z.record(z.string().regex(/^[^/\s]+$/), gatewayAddress())], {
          error: 'expected the address of HttpFS or Knox, such as https://host:port/gateway/default, or such addresses by nameservice',
        })
        .describe(
          "Address of HttpFS (http://host:14000) or of a Knox topology (https://host:8443/gateway/default) through which all tony-ts processes reach the default file system, or such addresses by nameservice. Without a gateway, these processes connect to the NameNodes and DataNodes directly. Takes effect only in a site file on the user's machine.",
        )
        .optional(),
      credentials: text()
        .describe(
          "File with mode 600 that contains USER:PASSWORD for a gateway that requires HTTP Basic authentication. Relative paths are resolved against the folder that contains the site file; ~/ is the user's home folder. Jobs receive the credentials as a token.",
        )
        .optional(),
    })
    .describe('How tony-ts connects to HDFS.')
    .prefault({}),
  kerberos: z
    .strictObject({
      principal: text()
        .regex(/^[^\s@/-][^\s@/]*(\/[^\s@/]+)?(@[^\s@/]+)?$/, {
          error: 'expected a Kerberos principal, such as trainer@EXAMPLE.COM or trainer/_HOST@EXAMPLE.COM',
        })
        .describe('Kerberos principal of the keytab. `_HOST` stands for the full host name of this machine.'),
      keytab: text().describe(
        "File with the principal's keys. Relative paths are resolved against the folder that contains the site file; ~/ is the user's home folder.",
      ),
    })
    .describe(
      "Keytab with which tony-ts logs in, instead of using kinit's ticket cache. TONY_PRINCIPAL and TONY_KEYTAB override this setting. Ignored in a site file on HDFS, because tony-ts needs the login to read files from HDFS.",
    )
    .optional(),
  quotas: quotaSchema.prefault({}),
  defaults: defaultsSchema.optional().describe('Default values for keys that job.yaml does not set, in job.yaml syntax.'),
  final: finalSchema.optional().describe('Values that override job.yaml and --set, in job.yaml syntax.'),
});

export const DEFAULT_SITE: SiteConfig = { ...parseSite('{}', SITE_FILE), from: null };

/**
 * Parses the text of a tony-site.yaml.
 * @param file file name for error messages
 * @throws TonyError SITE_INVALID with the line, the column and the expected value of every mistake. Unknown keys are mistakes only below
 * `quotas` and `final`, where an ignored key would lift a limit.
 */
export function parseSite(text: string, file: string): SiteConfig {
  const yaml = new YamlFile(text, {
    file,
    what: 'site file',
    code: 'SITE_INVALID',
    expected: 'a mapping with the keys history, cache, tls, storage, kerberos, quotas, defaults and final',
    mayBeEmpty: true,
    isText: ([section, ...path]) => (section === 'defaults' || section === 'final') && isTextKey(path),
  });
  const unknown: { readonly path: YamlPath; readonly text: string }[] = [];
  const { history, cache, tls, storage, kerberos, quotas, final } = yaml.check(siteSchema, {
    ignored: (path) => isHarmless(path) && whyNotHere(path) === undefined,
    onIgnored: (path, text) => unknown.push({ path, text }),
    schema: siteJsonSchema,
    unknown: whyNotHere,
    key: ([section, ...path]) => (section === 'quotas' ? limitProblemAt(path) : resourceProblemAt(path)),
    meaning: meaningProblems,
    independent: ([section]) => section !== 'history',
  });
  const written = yaml.written() ?? {};
  for (const { path } of unknown) {
    removeKey(written, path);
  }
  const { defaults } = written as { readonly defaults?: SiteConfig['defaults'] };
  return {
    from: file,
    history: { dir: history.dir ?? null, url: history.url === undefined ? null : withoutEnd(history.url, '/'), keepMs: history.keep },
    cache: { maxAgeMs: cache.maxAge ?? null },
    tls: { ca: tls.ca ?? null },
    storage: { gateway: storage.gateway ?? null, credentials: storage.credentials ?? null },
    kerberos: kerberos ?? null,
    quotas,
    defaults: defaults ?? {},
    final: final ?? {},
    unknownKeys: unknown.map(({ text }) => text),
  };
}

/** The sections that say where and for how long jobs' files are kept. */
export type KeepingSite = Pick<SiteConfig, 'history' | 'cache'>;

/**
 * Parses the sections `history` and `cache` of a tony-site.yaml, and ignores mistakes in other sections: limits do not concern ended jobs.
 * @throws TonyError SITE_INVALID if these sections contain mistakes, or if the text is not YAML
 */
export function parseKeepingSite(text: string, file: string): KeepingSite {
  try {
    return parseSite(text, file);
  } catch (error) {
    try {
      const value: unknown = parse(text, { logLevel: 'error' });
      if (!isRecord(value)) {
        throw error;
      }
      const { history = {}, cache = {} } = value;
      return parseSite(JSON.stringify({ history, cache }), file);
    } catch {
      throw error;
    }
  }
}

/** Returns `tls.ca` from a site file that has not been validated, or null if it is not set. */
export function authorityFileOf(text: string): string | null {
  if (!/^['"]?tls\b/m.test(text)) {
    return null;
  }
  try {
    const { tls } = parse(text) as { readonly tls?: { readonly ca?: unknown } };
    return typeof tls?.ca === 'string' ? tls.ca : null;
  } catch {
    return null;
  }
}

/** Returns `storage` from a site file that may contain mistakes. Returns null if `storage` is missing or invalid. */
export function storageOfSite(text: string): { readonly gateway: StorageGateway; readonly credentials: string | null } | null {
  if (!/^['"]?storage\b/m.test(text)) {
    return null;
  }
  try {
    const { storage } = parse(text) as { readonly storage?: unknown };
    const { gateway, credentials = null } = siteSchema.shape.storage.safeParse(storage).data ?? {};
    return gateway === undefined ? null : { gateway, credentials };
  } catch {
    return null;
  }
}

/**
 * Returns `kerberos` from a site file, or null if it is not set.
 * @throws TonyError SITE_INVALID if the file sets `kerberos` and contains mistakes
 */
export function keytabOf(text: string, file: string): SiteKeytab | null {
  return /^['"]?kerberos\b/m.test(text) ? parseSite(text, file).kerberos : null;
}

/** Returns the JSON Schema (2020-12) for tony-site.yaml, for use in editors. */
export function siteJsonSchema(): JsonSchema {
  return withUserKeys({ title: 'tony-ts site', ...z.toJSONSchema(siteSchema, { io: 'input', unrepresentable: 'any' }) });
}

function whyNotHere([section, ...path]: YamlPath): string | undefined {
  return section === 'defaults' || section === 'final' ? whyNotInSite(path) : undefined;
}

/** Returns true for an unknown key that sets no limit. If tony-ts ignored `quota`, the limits would not apply. */
function isHarmless([first, ...below]: YamlPath): boolean {
  const section = String(first);
  return !LIMITING.includes(section) && (below.length > 0 || suggest(section, LIMITING) === undefined);
}

function meaningProblems({ history }: z.output<typeof siteSchema>): YamlProblem[] {
  const problems: YamlProblem[] = [];
  if (history.url !== undefined && history.dir === undefined) {
    problems.push({
      path: ['history', 'url'],
      message: "a history server for all users reads history.dir, not users' home folders: set history.dir too",
    });
  }
  return problems;
}

function gatewayAddress(): z.ZodString {
  return text().refine(isHttpAddress, { error: 'expected an address such as https://host:port, without user, query or #' });
}

function isHttpAddress(address: string): boolean {
  if (!/^https?:\/\//i.test(address) || !URL.canParse(address)) {
    return false;
  }
  const { username, password, search, hash } = new URL(address);
  return username === '' && password === '' && search === '' && hash === '';
}

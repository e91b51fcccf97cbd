import { readFile, stat } from 'node:fs/promises';
import { fileErrorOf, TonyError } from '../../../platform/errors.ts';
import { Secret } from '../../../platform/secret.ts';
import { decodeCredentials, type Token } from '../../rpc/credentials.ts';
import { KnownServers } from '../../security/known-servers.ts';
import type { HttpIdentity, Login, LoginDescription, TokenService } from '../../security/login.ts';
import type { HadoopConfiguration } from '../configuration.ts';
import { allGateways } from '../file-systems/gateway.ts';

/**
 * The path of the credentials file on the user's machine. The file contains `USER:PASSWORD` for the gateways. The path comes from
 * `storage.credentials` in the site file and is never copied into job.json.
 */
export const GATEWAY_CREDENTIALS = 'tony.storage.credentials';

/**
 * The kind of token that carries the credentials to containers. The token's service is the gateway's base URL. The ResourceManager passes
 * the token on unchanged, because Hadoop has no renewer for this kind.
 */
const KIND = 'TONY_GATEWAY_CREDENTIALS';

const OTHERS = 0o077;
const MAXIMUM_BYTES = 4096;

/**
 * Authenticates the user to a gateway. Uses HTTP Basic if credentials are configured. Otherwise, uses the same login as for the NameNodes.
 */
export class GatewayLogin implements Login {
  readonly #inner: Login;
  readonly #server: KnownServers;
  readonly #read: () => Promise<Secret | null>;
  #credentials: Promise<Secret | null> | null = null;

  get keepsTokens(): boolean {
    return this.#inner.keepsTokens;
  }

  /** @param gateway the gateway's base URL. Only this server receives the credentials. */
  constructor(gateway: string, inner: Login, read: () => Promise<Secret | null>) {
    this.#inner = inner;
    this.#server = new KnownServers([gateway]);
    this.#read = read;
  }

  describe(): Promise<LoginDescription> {
    return this.#inner.describe();
  }

  async identify(url: URL): Promise<HttpIdentity> {
    this.#credentials ??= this.#read();
    const credentials = await this.#credentials;
    if (credentials === null) {
      return this.#inner.identify(url);
    }
    this.#server.check(url);
    return { query: {}, headers: { Authorization: `Basic ${Buffer.from(credentials.reveal()).toString('base64')}` } };
  }

  admit(servers: readonly string[]): void {
    this.#inner.admit(servers);
  }

  refused(url: URL, identity: HttpIdentity): boolean {
    return identity.headers.Authorization?.startsWith('Basic ') ? false : this.#inner.refused(url, identity);
  }

  rpcToken(service: TokenService): Promise<Token | null> {
    return this.#inner.rpcToken(service);
  }

  jobTokens(fileSystems: readonly string[]): Promise<readonly Token[]> {
    return this.#inner.jobTokens(fileSystems);
  }
}

/**
 * Returns the login for a gateway. On the user's machine, the credentials come from the file named in the site file. In containers, they
 * come from HADOOP_TOKEN_FILE_LOCATION.
 * @param gateway the gateway's base URL
 */
export function gatewayLogin(
  configuration: HadoopConfiguration,
  gateway: string,
  inner: Login,
  environment: NodeJS.ProcessEnv = process.env,
): Login {
  return new GatewayLogin(gateway, inner, async () => {
    const file = configuration.get(GATEWAY_CREDENTIALS);
    return file === undefined ? ofContainer(gateway, environment) : readCredentials(file, gateway);
  });
}

/** Returns the tokens that authenticate a job's containers to the gateways. Returns an empty list if no credentials are configured. */
export async function gatewayTokens(configuration: HadoopConfiguration): Promise<readonly Token[]> {
  const file = configuration.get(GATEWAY_CREDENTIALS);
  return file === undefined
    ? []
    : Promise.all(
        allGateways(configuration).map(async (service) => {
          return { identifier: Buffer.alloc(0), password: await readCredentials(file, service), kind: KIND, service };
        }),
      );
}

async function ofContainer(gateway: string, { HADOOP_TOKEN_FILE_LOCATION: file }: NodeJS.ProcessEnv): Promise<Secret | null> {
  if (!file) {
    return null;
  }
  const { tokens } = decodeCredentials(await readFile(file));
  return tokens.find(({ token }) => token.kind === KIND && token.service === gateway)?.token.password ?? null;
}

/**
 * Reads and checks the credentials file. Error messages never contain the file's content.
 * @throws TonyError GATEWAY_CREDENTIALS_INVALID
 */
async function readCredentials(file: string, gateway: string): Promise<Secret> {
  const fail = (problem: string): never => {
    throw new TonyError('GATEWAY_CREDENTIALS_INVALID', `The credentials for the gateway in ${file} cannot be used: ${problem}.`);
  };
  if (!/^https:/i.test(gateway)) {
    return fail(`${gateway} does not use HTTPS, so others could read them`);
  }
  let text: string;
  try {
    const { mode, size } = await stat(file);
    if ((mode & OTHERS) !== 0) {
      return fail(`other users can read the file (mode ${(mode & 0o777).toString(8)})`);
    }
    text = size > MAXIMUM_BYTES ? fail('the file is too large') : (await readFile(file, 'utf8')).trimEnd();
  } catch (error) {
    if (error instanceof TonyError) {
      throw error;
    }
    return fail(fileErrorOf(error));
  }
  return /^[^:\n]+:[^\n]+$/.test(text)
    ? new Secret(Buffer.from(text))
    : fail('the file does not consist of one line of the form USER:PASSWORD');
}

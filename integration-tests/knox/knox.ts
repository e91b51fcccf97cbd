import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { withTimeout } from '../../platform/async/deadline.ts';
import { toXml } from '../cluster/configuration.mjs';
import { knoxJars, knoxServices } from '../cluster/jars.mjs';
import { execute } from '../execute.ts';

/** Ends a start that hangs. A busy machine needs minutes, and Knox reports its own end immediately. */
const START_MS = 480_000;
const TOPOLOGY = 'box';
const FLAGS = [
  '-Xmx192m',
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-Djava.net.preferIPv4Stack=true',
  // Knox's libraries define classes at run time, which Java 17 forbids by default.
  '--add-opens=java.base/java.lang=ALL-UNNAMED',
];
const LOG = `<Configuration>
  <Appenders><Console name="console"><PatternLayout pattern="%-5p %c{2} %m%n"/></Console></Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="console"/></Root></Loggers>
</Configuration>
`;

/** Apache Knox in front of a NameNode. Users authenticate with HTTP Basic. */
export interface Knox {
  /** The address for `storage.gateway`. */
  readonly url: string;
  /** The certificate of the gateway, in PEM format. */
  readonly certificate: string;
  close(): Promise<void>;
}

/** @param nameNode the web address of the NameNode */
export async function startKnox(nameNode: string, user: string, password: string): Promise<Knox> {
  const jars = await knoxJars();
  const home = await mkdtemp(path.join(tmpdir(), 'tony-ts-knox-'));
  const properties = [`-DGATEWAY_HOME=${home}`, `-Dlog4j2.configurationFile=${home}/conf/log4j2.xml`];
  const words = [...FLAGS, ...properties, '-cp', `${home}/conf:${jars}/*`];
  let server: ChildProcess | null = null;
  const close = async (): Promise<void> => {
    if (server !== null && server.exitCode === null && server.signalCode === null) {
      server.kill('SIGKILL');
      await once(server, 'exit');
    }
    await rm(home, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    await configure(home, { nameNode, user, password });
    await knoxServices(path.join(home, 'data'));
    // This secret protects only the key store of this gateway.
    const master = randomBytes(16).toString('hex');
    const certificate = await createIdentity(home, master);
    await execute('java', [...words, 'org.apache.knox.gateway.util.KnoxCLI', 'create-master', '--master', master]);
    // The kernel ends the server when this process ends for any reason.
    server = spawn('setpriv', ['--pdeathsig', 'KILL', 'java', ...words, 'org.apache.knox.gateway.GatewayServer'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    return { url: `https://localhost:${await portOf(server)}/gateway/${TOPOLOGY}`, certificate, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function configure(
  home: string,
  { nameNode, user, password }: { readonly nameNode: string; readonly user: string; readonly password: string },
): Promise<void> {
  const site = { 'gateway.host': 'localhost', 'gateway.port': 0, 'gateway.path': 'gateway', 'gateway.dispatch.whitelist': '^.*$' };
  const realm = {
    'main.iniRealm': 'org.apache.shiro.realm.text.IniRealm',
    'main.iniRealm.resourcePath': `file:${home}/conf/users.ini`,
    'urls./**': 'authcBasic',
  };
  const params = Object.entries(realm).map(([name, value]) => `<param><name>${name}</name><value>${value}</value></param>`);
  const provider = (role: string, name: string, more = ''): string =>
    `<provider><role>${role}</role><name>${name}</name><enabled>true</enabled>${more}</provider>`;
  const files = {
    'gateway-site.xml': toXml(site),
    'log4j2.xml': LOG,
    'users.ini': `[users]\n${user} = ${password}\n`,
    // The scripts of a Knox release add this file.
    'META-INF/services/org.apache.knox.gateway.services.GatewayServices': 'org.apache.knox.gateway.services.DefaultGatewayServices\n',
    [`topologies/${TOPOLOGY}.xml`]: `<topology>
  <gateway>${provider('authentication', 'ShiroProvider', params.join(''))}${provider('identity-assertion', 'Default')}</gateway>
  <service><role>WEBHDFS</role><url>${nameNode}/webhdfs</url></service>
</topology>
`,
  };
  for (const folder of ['conf/shared-providers', 'conf/descriptors', 'data/deployments', 'data/security/keystores']) {
    await mkdir(path.join(home, folder), { recursive: true });
  }
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(home, 'conf', name)), { recursive: true });
    await writeFile(path.join(home, 'conf', name), text, { mode: 0o600 });
  }
}

/** Creates the gateway's key, because Knox 2.0 cannot create it with Java 17. Returns its certificate. */
async function createIdentity(home: string, master: string): Promise<string> {
  const password = path.join(home, 'data', 'security', 'store-password');
  await writeFile(password, master, { mode: 0o600 });
  const store = ['-alias', 'gateway-identity', '-keystore', path.join(home, 'data', 'security', 'keystores', 'gateway.jks')];
  const access = [...store, '-storepass:file', password];
  const names = ['-dname', 'CN=localhost', '-ext', 'san=dns:localhost'];
  await execute('keytool', [
    '-genkeypair',
    '-keyalg',
    'RSA',
    '-keysize',
    '2048',
    '-storetype',
    'PKCS12',
    '-validity',
    '365',
    ...names,
    ...access,
  ]);
  return (await execute('keytool', ['-exportcert', '-rfc', ...access])).stdout;
}

/** Reads the port from the server's log, and then discards the rest of the log. */
async function portOf({ stdout, ...server }: ChildProcess): Promise<number> {
  const log: string[] = [];
  const lines = createInterface({ input: stdout as NonNullable<typeof stdout> });
  const found = new Promise<number>((resolve, reject) => {
    let port = 0;
    lines.on('line', (line) => {
      port = Number(/ServerConnector@.*\{localhost:([1-9]\d*)\}/.exec(line)?.[1] ?? port);
      if (port > 0 && line.includes('Started gateway')) {
        log.length = 0;
        resolve(port);
      } else if (log.length < 1000) {
        log.push(line);
      }
    });
    lines.once('close', () => reject(new Error(`Knox ended (${server.exitCode}):\n${log.slice(-40).join('\n')}`)));
  });
  return await withTimeout(found, START_MS, () => {
    throw new Error(`Knox did not start within ${START_MS / 1000} s:\n${log.slice(-40).join('\n')}`);
  });
}

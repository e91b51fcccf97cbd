import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import type { Credentials } from '../../hadoop/rpc/credentials.ts';
import { privateKeyOf, readJavaKeyStore } from '../../hadoop/tls/java-key-store.ts';
import { toPem } from '../../hadoop/tls/pem.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { ServerTls } from '../../web/server/server.ts';

/**
 * If yarn.resourcemanager.application-https.policy is LENIENT or STRICT, the ResourceManager adds these secrets to the ApplicationMaster's
 * credentials (org.apache.hadoop.yarn.server.security.AMSecretKeys). The JKS keystore contains a certificate for this application. The JKS
 * truststore contains the certificate of the authority that signed it. The ResourceManager's proxy trusts only this authority, and uses the
 * authority's certificate as its own client certificate.
 */
const SECRETS = {
  keyStore: 'yarn.application.am.keystore',
  keyStorePassword: 'yarn.application.am.keystore.password',
  trustStore: 'yarn.application.am.truststore',
  trustStorePassword: 'yarn.application.am.truststore.password',
} as const;

/** Returns the keys for serving the job's pages over HTTPS, or null if YARN's proxy uses plain HTTP. */
export function pagesTls({ secrets }: Credentials, configuration: HadoopConfiguration, log: Logger): ServerTls | null {
  const [keyStore, trustStore] = [secrets.get(SECRETS.keyStore), secrets.get(SECRETS.trustStore)];
  if (keyStore === undefined || trustStore === undefined) {
    return null;
  }
  if (configuration.separateWebProxy !== null) {
    log.warn(
      "the pages use plain HTTP: a proxy outside the ResourceManager does not know the ResourceManager's certificate authority. If yarn.resourcemanager.application-https.policy is STRICT, the proxy refuses to show the pages",
    );
    return null;
  }
  const password = (name: string): string => Buffer.from(secrets.get(name)?.reveal() ?? []).toString('utf8');
  try {
    const keyPassword = password(SECRETS.keyStorePassword);
    const [key] = readJavaKeyStore(Buffer.from(keyStore.reveal()), keyPassword).keys;
    const { trusted } = readJavaKeyStore(Buffer.from(trustStore.reveal()), password(SECRETS.trustStorePassword));
    if (key === undefined || trusted.length === 0) {
      throw new Error('the key store or the truststore is empty');
    }
    return {
      key: toPem(privateKeyOf(key, keyPassword), 'PRIVATE KEY'),
      certificate: key.chain.map((each) => toPem(each)).join(''),
      clientAuthority: trusted.map((each) => toPem(each)).join(''),
    };
  } catch (error) {
    log.warn({ error: messageOf(error) }, "the pages use plain HTTP: the ResourceManager's key store cannot be read");
    return null;
  }
}

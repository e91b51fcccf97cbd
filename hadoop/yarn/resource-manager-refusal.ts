import { TonyError } from '../../platform/errors.ts';
import { parseRemoteException } from '../http/remote-exception.ts';

/**
 * Converts an error response from the ResourceManager to an error.
 * @param path the request path
 */
export function refusal(status: number, text: string, path: string): TonyError {
  const remote = parseRemoteException(text);
  // YARN puts each wrapped exception's class name before the message.
  const message = remote?.message.replace(/^(([\w$]+\.)+[\w$]*(Exception|Error): )+/, '') ?? '';
  if (remote?.exception === 'NotFoundException' && path.startsWith('/ws/v1/cluster/apps/')) {
    return new TonyError('APPLICATION_NOT_FOUND', `The ResourceManager does not know ${path.split('/')[5] ?? 'this application'}.`);
  }
  if (status === 401) {
    return new TonyError('RM_REFUSED', 'The ResourceManager requires authentication (HTTP 401).', {
      hint: 'If the cluster uses Kerberos, set hadoop.security.authentication to kerberos in the core-site.xml of HADOOP_CONF_DIR.',
    });
  }
  if (remote !== null && (remote.exception === 'InvalidToken' || remote.message.includes('SecretManager$InvalidToken'))) {
    return new TonyError('TOKEN_EXPIRED', `The ResourceManager rejected the delegation token: ${message}`);
  }
  if (remote !== null) {
    return new TonyError('RM_REFUSED', `The ResourceManager rejected the request: ${message || remote.exception}`);
  }
  // Servlet filters return errors as HTML or plain text.
  const plain = text
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, 300);
  if (status === 403 || status === 400) {
    return new TonyError('RM_REFUSED', `The ResourceManager rejected the request (HTTP ${status}): ${plain}`);
  }
  return notResourceManager(`HTTP ${status}`);
}

export function notResourceManager(what: string): TonyError {
  return new TonyError('RM_UNREACHABLE', `The server at the ResourceManager's address is not a ResourceManager: ${what}.`);
}

export function unreachable(server: 'ResourceManager' | 'web proxy', reason: string): TonyError {
  return server === 'ResourceManager'
    ? new TonyError('RM_UNREACHABLE', `No ResourceManager could be reached. The last attempt failed: ${reason}`)
    : new TonyError('RM_UNREACHABLE', `YARN's web proxy could not be reached. The last attempt failed: ${reason}`, {
        hint: "Check that yarn.web-proxy.address is the address of YARN's web proxy, and that the proxy is running.",
      });
}

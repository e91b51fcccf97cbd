import { createHmac } from 'node:crypto';
import { Secret } from '../../../platform/secret.ts';

/**
 * Derives the key for handshakes with parameter servers from the ring's key. A handshake proof for the ring is therefore not valid for
 * parameter servers.
 */
export function serverKey(ringKey: Secret): Secret {
  return new Secret(createHmac('sha256', ringKey.reveal()).update('tony parameter server', 'latin1').digest());
}

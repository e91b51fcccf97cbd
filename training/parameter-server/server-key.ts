import { createHmac } from 'node:crypto';
import { Secret } from '../../conf/secret.ts';

/** The key of handshakes with parameter servers: made of the ring's, so that a proof for the one is none for the other. */
export function serverKey(ringKey: Secret): Secret {
  return new Secret(createHmac('sha256', ringKey.reveal()).update('tony parameter server', 'latin1').digest());
}

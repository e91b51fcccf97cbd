import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { Server, TLSSocket } from 'node:tls';
import { LONGEST_MESSAGE, type ProbeFacts, type ProbePeers, type ProbeReached, probeMessage } from '../../conf/node-probe.ts';
import { parseJson } from '../../platform/json-value.ts';
import type { Secret } from '../../platform/secret.ts';
import { createPinnedTls } from '../rpc/pinned-tls.ts';

export interface ProbeServerEvents {
  readonly facts: (facts: ProbeFacts) => void;
  readonly reached: (containerId: string, reached: ProbeReached) => void;
}

/** Receives reports from the probe's containers over TLS, one JSON object per line. Only clients with the application's key can connect. */
export class ProbeServer {
  readonly #server: Server;
  readonly #events: ProbeServerEvents;
  readonly #sockets = new Map<string, TLSSocket>();

  constructor({ certificate, privateKey }: { certificate: Secret; privateKey: Secret }, events: ProbeServerEvents) {
    this.#events = events;
    const { server } = createPinnedTls({ certificate, privateKey, clients: 'certificate' }, [], (socket) => this.#attach(socket));
    this.#server = server;
  }

  async listen(address: string): Promise<number> {
    this.#server.listen(0, address);
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  /** Tells a container which nodes to connect to. */
  send(containerId: string, peers: ProbePeers): void {
    this.#sockets.get(containerId)?.write(`${JSON.stringify(peers)}\n`);
  }

  /** Closes all connections. The containers exit when they lose their connection. */
  close(): void {
    this.#server.close();
    for (const socket of this.#sockets.values()) {
      socket.destroy();
    }
  }

  #attach(socket: TLSSocket): void {
    let containerId: string | null = null;
    let pending = '';
    socket.setEncoding('utf8');
    socket.on('data', (chunk: string) => {
      const lines = (pending + chunk).split('\n');
      pending = lines.pop() ?? '';
      if (pending.length > LONGEST_MESSAGE) {
        socket.destroy();
        return;
      }
      for (const line of lines) {
        const message = parsed(line);
        if (message?.type === 'facts' && containerId === null) {
          containerId = message.containerId;
          this.#sockets.set(containerId, socket);
          this.#events.facts(message);
        } else if (message?.type === 'reached' && containerId !== null) {
          this.#events.reached(containerId, message);
        } else {
          socket.destroy();
          return;
        }
      }
    });
  }
}

function parsed(line: string): ProbeFacts | ProbeReached | null {
  return probeMessage.safeParse(parseJson(line)).data ?? null;
}

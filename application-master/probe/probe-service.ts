import { PROBE_FACTS, PROBE_REACHED, type ProbePeers, probeFacts, probeReached } from '../../conf/node-probe.ts';
import { TonyError } from '../../platform/errors.ts';
import { ExecutorService, type ExecutorServiceOptions } from '../rpc/executor-service.ts';
import type { ServiceCall } from '../services/services.ts';
import type { ProbeLedger } from './probe-ledger.ts';

/** Receives the reports of a probe's containers. The containers are tasks without executors: they send only requests to a service. */
export class ProbeService {
  readonly #ledger: ProbeLedger;
  readonly #executors: ExecutorService;
  /** Resolves with the nodes to which each container connects. */
  readonly #peers: Promise<ReadonlyMap<string, ProbePeers>>;
  #connect: (peers: ReadonlyMap<string, ProbePeers>) => void = () => {};
  readonly #ended: Promise<void>;
  #end = (): void => {};

  constructor(ledger: ProbeLedger, options: Pick<ExecutorServiceOptions, 'certificate' | 'privateKey' | 'jobSecret' | 'log'>) {
    this.#ledger = ledger;
    this.#peers = new Promise((resolve) => {
      this.#connect = resolve;
    });
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#executors = new ExecutorService({
      ...options,
      attempt: 1,
      assignmentOf: (containerId) => (ledger.has(containerId) ? { role: 'probe', index: 0 } : null),
      serve: async (call) => ({ head: Buffer.from(JSON.stringify({ answer: await this.#serve(call) })), body: Buffer.alloc(0) }),
      welcomeFor: () => {
        throw new TonyError('INTERNAL', 'A probe has no executors.');
      },
      hear: () => {},
      join: () => false,
    });
  }

  listen(address: string): Promise<number> {
    return this.#executors.listen(address);
  }

  /** Orders all containers that have reported facts to connect to each other. */
  connectNodes(): void {
    this.#connect(this.#ledger.peers());
  }

  /** Allows the containers to exit. */
  end(): void {
    this.#end();
  }

  close(): void {
    this.#executors.close();
  }

  async #serve({ containerId, service, body }: Pick<ServiceCall, 'containerId' | 'service' | 'body'>): Promise<unknown> {
    const report: unknown = JSON.parse(Buffer.from(body).toString('utf8'));
    switch (service) {
      case PROBE_FACTS:
        this.#ledger.facts(containerId, probeFacts.parse(report));
        return (await this.#peers).get(containerId) ?? [];
      case PROBE_REACHED:
        this.#ledger.reached(containerId, probeReached.parse(report));
        return await this.#ended;
      default:
        throw new TonyError('USAGE', `unknown service ${service}`);
    }
  }
}

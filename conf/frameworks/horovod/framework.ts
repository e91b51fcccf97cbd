import { programName } from '../../../platform/text/shell-words.ts';
import type { Framework } from '../framework.ts';
import { interfaceOfHost } from './network-interface.ts';
import { Rendezvous } from './rendezvous.ts';
import { horovodDefaults, horovodProcesses } from './variables.ts';

export const horovod: Framework = {
  title: 'Horovod',
  programs: "Python programs that receive the framework's environment variables",
  trainingLibrary: 'never',
  reserved: [
    'HOROVOD_RANK',
    'HOROVOD_SIZE',
    'HOROVOD_LOCAL_RANK',
    'HOROVOD_LOCAL_SIZE',
    'HOROVOD_CROSS_RANK',
    'HOROVOD_CROSS_SIZE',
    'HOROVOD_HOSTNAME',
    'HOROVOD_CONTROLLER',
    'HOROVOD_GLOO_RENDEZVOUS_ADDR',
    'HOROVOD_GLOO_RENDEZVOUS_PORT',
  ],
  runsProcesses: true,
  validate(roles) {
    const message = 'tony-ts starts each process itself: write the command without horovodrun and its options';
    return roles
      .filter(({ words }) => words.some((word) => programName(word) === 'horovodrun'))
      .map(({ name }) => ({ role: name, about: 'command', message }));
  },
  async variables(task) {
    const network = { rendezvousPort: task.servicePort, interface: await interfaceOfHost(task.host) };
    return { defaults: horovodDefaults(network), processes: horovodProcesses(task, network) };
  },
  services: {
    async openInTask(options) {
      // Only the executors of Horovod jobs load the server.
      const { RendezvousRelay } = await import('./rendezvous-relay.ts');
      return await RendezvousRelay.open(options);
    },
    openInMaster: () => new Rendezvous(),
  },
};

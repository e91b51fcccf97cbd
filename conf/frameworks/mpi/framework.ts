import type { Framework } from '../framework.ts';
import { prepareMpi } from './prepare-mpi.ts';

export const mpi: Framework = {
  title: 'MPI',
  programs: 'only the task with rank 0 runs the command, which contains mpirun',
  trainingLibrary: 'never',
  reserved: [
    'OMPI_MCA_plm_rsh_agent',
    'OMPI_MCA_orte_default_hostfile',
    'PRTE_MCA_plm_ssh_agent',
    'PRTE_MCA_prte_default_hostfile',
    'HYDRA_LAUNCHER_EXEC',
    'HYDRA_HOST_FILE',
  ],
  runsProcesses: true,
  launchesRanks: true,
  processes: prepareMpi,
};

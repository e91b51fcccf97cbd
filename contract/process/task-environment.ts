import { TASK_FILE_VARIABLE } from '../../conf/job.ts';

/** Names of environment variables: TONY_TASK_FILE, and single values for shell scripts and programs in other languages. */
export const TASK_ENVIRONMENT = {
  taskFile: TASK_FILE_VARIABLE,
  jobId: 'TONY_JOB_ID',
  role: 'TONY_ROLE',
  index: 'TONY_INDEX',
  taskRank: 'TONY_TASK_RANK',
  rank: 'TONY_RANK',
  localRank: 'TONY_LOCAL_RANK',
  worldSize: 'TONY_WORLD_SIZE',
  generation: 'TONY_GENERATION',
  checkpointDir: 'TONY_CHECKPOINT_DIR',
} as const;

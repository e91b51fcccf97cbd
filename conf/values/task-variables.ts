/** Environment variables that tony-ts sets for each task and that jobs cannot override. */
export const TASK_VARIABLES: ReadonlySet<string> = new Set([
  'TONY_TASK_FILE',
  'TONY_APPLICATION_ID',
  'TONY_ROLE',
  'TONY_INDEX',
  'TONY_RANK',
  'TONY_WORLD_SIZE',
  'TONY_GENERATION',
  'TONY_CHECKPOINT_DIR',
  'TONY_PROGRAM_ID',
]);

/** The programs whose lines `submit` shows. `chief`: those of the task that determines the job's result. */
export const SHOWN_LOGS = ['chief', 'all', 'none'] as const;
export type ShownLogs = (typeof SHOWN_LOGS)[number];

/** Number of training steps between checkpoints if neither a number of steps nor a time is set. */
export const DEFAULT_CHECKPOINT_STEPS = 100;

/**
 * Types for machines without this optional dependency. They are the same as the types of
 * @tensorflow/tfjs.
 */
declare module '@tensorflow/tfjs-node' {
  export * from '@tensorflow/tfjs';
}

import type * as tfjs from '@tensorflow/tfjs';
import { NativeBackend } from './native-backend.ts';
import { nativeGradientOf, WITH_NATIVE_GRADIENT } from './native-gradients.ts';

interface Installed {
  readonly native: NativeBackend;
  readonly replaced: readonly tfjs.GradConfig[];
}

/** The kernels installed in each TensorFlow.js engine. All copies of TensorFlow.js in a process share one engine. */
const installed = new WeakMap<object, Installed>();

/**
 * Installs TensorFlow's kernels for gradients, and for the optimizer steps in `fit` and `step`, wherever these kernels give the same
 * results as TensorFlow.js. Does nothing if the current backend is not native.
 */
export function installNativeKernels(tf: typeof tfjs): void {
  const native = NativeBackend.of(tf);
  if (native === null || installed.has(tf.engine())) {
    return;
  }
  const replaced: tfjs.GradConfig[] = [];
  for (const kernelName of WITH_NATIVE_GRADIENT) {
    const own = tf.getGradient(kernelName);
    const better = own === undefined ? null : nativeGradientOf(native, own);
    if (better !== null) {
      replaced.push(own);
      replaceGradient(tf, better);
    }
  }
  installed.set(tf.engine(), { native, replaced });
}

/** Restores TensorFlow.js's own gradients and optimizer steps. */
export function uninstallNativeKernels(tf: typeof tfjs): void {
  for (const own of installed.get(tf.engine())?.replaced ?? []) {
    replaceGradient(tf, own);
  }
  installed.delete(tf.engine());
}

/** Returns the native backend, or null if its kernels are not installed. */
export function nativeKernelsOf(tf: typeof tfjs): NativeBackend | null {
  return installed.get(tf.engine())?.native ?? null;
}

function replaceGradient(tf: typeof tfjs, config: tfjs.GradConfig): void {
  tf.unregisterGradient(config.kernelName);
  tf.registerGradient(config);
}

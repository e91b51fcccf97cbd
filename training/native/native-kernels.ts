import type * as tfjs from '@tensorflow/tfjs';
import { NativeBackend } from './native-backend.ts';
import { nativeGradientOf, WITH_NATIVE_GRADIENT } from './native-gradients.ts';

interface Installed {
  readonly native: NativeBackend;
  readonly replaced: readonly tfjs.GradConfig[];
}

/** By engine: there is one for all copies of TensorFlow.js's functions. */
const installed = new WeakMap<object, Installed>();

/**
 * Has gradients, and the optimizer steps of `fit` and `step`, go by TensorFlow's own kernels where they compute what TensorFlow.js does.
 * Nothing happens where the backend is not native.
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

/** TensorFlow.js's own again. */
export function uninstallNativeKernels(tf: typeof tfjs): void {
  for (const own of installed.get(tf.engine())?.replaced ?? []) {
    replaceGradient(tf, own);
  }
  installed.delete(tf.engine());
}

/** null while they are not installed. */
export function nativeKernelsOf(tf: typeof tfjs): NativeBackend | null {
  return installed.get(tf.engine())?.native ?? null;
}

function replaceGradient(tf: typeof tfjs, config: tfjs.GradConfig): void {
  tf.unregisterGradient(config.kernelName);
  tf.registerGradient(config);
}
